package push

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/millrace-io/millrace/media/rtmp"
	"github.com/millrace-io/millrace/server/internal/streamname"
)

// A Route says to which address the streams of a name or pattern are sent.
type Route struct {
	pattern string // syntax of path.Match; wildcards also match slashes
	address string // with placeholders such as {name}
}

// word is a placeholder in an address.
var word = regexp.MustCompile(`\{([A-Za-z0-9_]+)\}`)

// nameWord stands for the name of the stream.
const nameWord = "name"

// ParseRoute parses a route such as live/cam=rtmp://host/app/{key}.
//   - Before the = is the path of a stream at this server, or a pattern, as in live/cam-*.
//   - After it is a URL with the scheme rtmp, rtmps, http or https. {name} stands for the name of
//     the stream. Any other word in braces stands for a secret; see [Config.Secret].
//
// Two streams cannot have the same address, so the URL of a pattern needs {name}. An error does not
// contain the URL.
func ParseRoute(text string) (Route, error) {
	from, to, ok := strings.Cut(text, "=")
	pattern, below := strings.CutPrefix("/"+strings.TrimPrefix(from, "/"), streamname.Path)
	r := Route{pattern, to}
	if !ok || !below || pattern == "" {
		return r, errors.New("want live/NAME=URL")
	}
	if _, err := path.Match(pattern, ""); err != nil {
		return r, fmt.Errorf("%q is not a pattern: %w", pattern, err)
	}
	if r.isPattern() {
		if !strings.Contains(to, "{"+nameWord+"}") {
			return r, fmt.Errorf("the URL for the streams %q needs {%s}, because two streams cannot have"+
				" one address", pattern, nameWord)
		}
	} else if err := streamname.Check(pattern); err != nil {
		return r, err
	}
	_, err := r.target("name", func(string) (string, bool) { return "secret", true })
	return r, err
}

func (r Route) isPattern() bool { return strings.ContainsAny(r.pattern, `*?[\`) }

// Matches reports whether the streams of a name are sent.
func (r Route) Matches(name string) bool {
	return streamname.Match(r.pattern, name)
}

// HasKey reports whether the URL itself seems to contain a key, in place of a word in braces.
func (r Route) HasKey() bool {
	u, err := url.Parse(word.ReplaceAllString(r.address, ""))
	if err != nil {
		return true
	}
	for _, values := range u.Query() {
		if slices.ContainsFunc(values, func(v string) bool { return v != "" }) {
			return true
		}
	}
	return strings.HasPrefix(u.Scheme, "rtmp") && path.Base(r.address) == path.Base(u.Path)
}

// words returns the words in braces other than nameWord.
func (r Route) words() (list []string) {
	for _, m := range word.FindAllStringSubmatch(r.address, -1) {
		if m[1] != nameWord {
			list = append(list, m[1])
		}
	}
	return list
}

// A target is the address of a stream at another server.
type target struct {
	rtmp    rtmp.Address // if http is nil
	http    *url.URL
	secrets []string // parts of the address that must not be shown
}

// target returns the address for a stream.
func (r Route) target(name string, secret func(word string) (string, bool)) (*target, error) {
	t := &target{}
	var missing error
	text := word.ReplaceAllStringFunc(r.address, func(part string) string {
		w := part[1 : len(part)-1]
		if w == nameWord {
			return name
		}
		key, ok := secret(w)
		if !ok {
			missing = fmt.Errorf("there is no key %q", w)
		}
		t.secrets = append(t.secrets, key)
		return key
	})
	if missing != nil {
		return nil, missing
	}
	if strings.HasPrefix(text, "rtmp") {
		var err error
		t.rtmp, err = rtmp.ParseAddress(text)
		t.secrets = append(t.secrets, t.rtmp.Key)
		return t, err
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, errors.New("this is not a URL") // the error of Parse has the text
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("want a URL with rtmp, rtmps, http or https")
	case u.Hostname() == "":
		return nil, errors.New("the URL has no host")
	case u.User != nil:
		return nil, errors.New("a user and a password in the URL are not supported")
	}
	t.http = u
	if u.RawQuery != "" {
		t.secrets = append(t.secrets, u.RawQuery)
		for _, values := range u.Query() {
			t.secrets = append(t.secrets, values...)
		}
	}
	return t, nil
}

// String returns the address without secrets.
func (t *target) String() string {
	if t.http == nil {
		return t.rtmp.String()
	}
	shown := url.URL{Scheme: t.http.Scheme, Host: t.http.Host, Path: t.http.Path}
	return t.hide(shown.String())
}

// hide replaces the secrets in a text, which may come from the other server.
func (t *target) hide(text string) string {
	for _, s := range t.secrets {
		if s != "" {
			text = strings.ReplaceAll(text, s, "…")
		}
	}
	return text
}

// host returns the host and the port of the server, and whether it uses TLS.
func (t *target) host() (address string, tls bool) {
	if t.http == nil {
		return t.rtmp.Host, t.rtmp.TLS
	}
	tls = t.http.Scheme == "https"
	port := t.http.Port()
	if port == "" {
		port = t.http.Scheme // a name of a port
	}
	return net.JoinHostPort(t.http.Hostname(), port), tls
}

// Routes are the routes of a server, as the value of a flag that may be repeated. Set also accepts
// several routes with spaces between them.
type Routes []Route

// Set adds routes.
func (r *Routes) Set(text string) error {
	for part := range strings.FieldsSeq(text) {
		route, err := ParseRoute(part)
		if err != nil {
			return err
		}
		*r = append(*r, route)
	}
	return nil
}

// String returns the names of the streams, without the addresses, which may contain keys.
func (r *Routes) String() string {
	var list []string
	for _, route := range *r {
		list = append(list, strings.TrimPrefix(streamname.Path, "/")+route.pattern)
	}
	return strings.Join(list, " ")
}

// Type describes the values for the help text.
func (r *Routes) Type() string { return "live/NAME=URL" }
