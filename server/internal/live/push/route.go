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

// HasKey reports whether the URL seems to contain a key itself: the last part of an RTMP address,
// or a value in the query, without a word in braces.
func (r Route) HasKey() bool {
	if len(r.words()) > 0 {
		return false
	}
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
	shown   string   // the address without secrets
	secrets []string // parts of the address that must not be shown, the longest first
}

// keyText matches keys that have the same meaning in all URLs. Other bytes must be escaped.
var keyText = regexp.MustCompile(`^[A-Za-z0-9._~!$&'()*+,;=:@%?-]+$`)

// target returns the address for a stream. An error does not contain the address.
func (r Route) target(name string, secret func(word string) (string, bool)) (*target, error) {
	t := &target{}
	var bad error
	expand := func(text string, key func(word string) string) string {
		return word.ReplaceAllStringFunc(text, func(part string) string {
			if part == "{"+nameWord+"}" {
				return name
			}
			return key(part[1 : len(part)-1])
		})
	}
	text := expand(r.address, func(word string) string {
		key, ok := secret(word)
		switch {
		case !ok:
			bad = fmt.Errorf("there is no key %q", word)
		case !keyText.MatchString(key):
			bad = fmt.Errorf("the key %q is empty, or has a character that must be escaped, as in %%20",
				word)
		}
		t.hideAll(key)
		return key
	})
	if bad != nil {
		return nil, bad
	}
	if err := t.parse(text); err != nil {
		return nil, err
	}
	t.shown = t.show(expand(r.address, func(string) string { return hidden }))
	slices.SortFunc(t.secrets, func(a, b string) int { return len(b) - len(a) })
	return t, nil
}

// parse sets the address of t, and hides the key of the stream and the query.
func (t *target) parse(text string) error {
	if strings.HasPrefix(text, "rtmp") {
		var err error
		t.rtmp, err = rtmp.ParseAddress(text)
		key, query, _ := strings.Cut(t.rtmp.Key, "?")
		t.hideAll(t.rtmp.Key, key)
		t.hideQuery(query)
		return err
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return errors.New("this is not a URL") // the error of Parse has the text
	case u.Scheme != "http" && u.Scheme != "https":
		return errors.New("want a URL with rtmp, rtmps, http or https")
	case u.Hostname() == "":
		return errors.New("the URL has no host")
	case u.User != nil:
		return errors.New("a user and a password in the URL are not supported")
	case u.Fragment != "":
		return errors.New("the URL has a #, which must be escaped as %23")
	}
	t.http = u
	t.hideAll(path.Base(u.EscapedPath()))
	t.hideQuery(u.RawQuery)
	return nil
}

// hidden stands for a secret.
const hidden = "…"

// show returns text, an address with hidden in place of its keys, without its last part and query.
func (t *target) show(text string) string {
	text, _, _ = strings.Cut(text, "?")
	if slash := strings.LastIndexByte(text, '/'); slash > strings.Index(text, "://")+2 {
		text = text[:slash+1] + hidden
	}
	return text
}

func (t *target) hideQuery(query string) {
	t.hideAll(query)
	values, _ := url.ParseQuery(query)
	for _, list := range values {
		t.hideAll(list...)
	}
}

// hideAll adds secrets in the forms in which a server or an error may repeat them.
func (t *target) hideAll(list ...string) {
	for _, s := range list {
		plain, err := url.QueryUnescape(s)
		if err != nil {
			plain = s
		}
		path, _ := url.PathUnescape(s)
		for _, form := range []string{s, plain, path, url.QueryEscape(plain), url.PathEscape(plain)} {
			if form != "" && !slices.Contains(t.secrets, form) {
				t.secrets = append(t.secrets, form)
			}
		}
	}
}

// maxReason limits the text that hide returns, in bytes.
const maxReason = 300

// hide replaces the secrets in a text, which may come from the other server, and shortens it.
func (t *target) hide(text string) string {
	for _, s := range t.secrets {
		text = strings.ReplaceAll(text, s, hidden)
	}
	return strings.ToValidUTF8(text[:min(len(text), maxReason)], "")
}

// String returns the address without secrets.
func (t *target) String() string { return t.shown }

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

// String returns the routes, as Set accepts them. They may contain keys.
func (r *Routes) String() string {
	var list []string
	for _, route := range *r {
		list = append(list, strings.TrimPrefix(streamname.Path, "/")+route.pattern+"="+route.address)
	}
	return strings.Join(list, " ")
}

// HidesValue tells the command line that an error message must not contain the value of the flag.
func (r *Routes) HidesValue() {}

// Type describes the values for the help text.
func (r *Routes) Type() string { return "live/NAME=URL" }
