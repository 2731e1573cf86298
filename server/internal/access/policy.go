package access

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/millrace-io/millrace/server/internal/refuse"
	"github.com/millrace-io/millrace/server/internal/streamname"
	"github.com/millrace-io/millrace/server/internal/token"
)

// A Policy contains the rules for the clients of a listener. It is immutable. To change the rules,
// pass another Policy to [Gate.SetPolicy].
//
// Publishing a stream needs a token if Publish or Keys is set. A client may publish the stream with
// the publish token, or with a token that one of the keys has signed for this stream.
//
// Writing a blob needs the publish token if Publish is set. Signed tokens are not valid for blobs.
//
// If no token is needed, only clients of a loopback listener may publish and write. The Host of an
// HTTP request must then name this machine. Otherwise a web page could make its host name resolve
// to 127.0.0.1, and its requests would count as same-origin (DNS rebinding). If Hook is set,
// clients of other listeners may also publish streams without a token, because the hook decides
// about these clients later. They may not write blobs.
//
// A page of another site may never publish or write.
//
// These rules apply to reading, that is, to requests for streams, files, blobs, the page, the API
// and the metrics:
//
//   - If Read is set, a client needs the read token, the publish token, or a signed token for the
//     requested stream.
//   - If Read is empty, every client may read. On a loopback listener, however, the Host of the
//     request must name this machine, unless the client has the publish token or a signed token for
//     the requested stream.
//
// A browser that opens a page with ?token=TOKEN gets a cookie. The requests, players and links of
// the page then need no token. The cookie grants the right to read, but never the right to publish
// or write.
//
// On the admin listener, every client that may read may also end streams, disconnect viewers and
// stop the server. This includes browsers with the cookie. If there is no admin token, the admin
// listener must be a loopback listener. A page of another site may never do any of this.
type Policy struct {
	Publish, Read string // tokens; may be empty
	Keys          token.Keys
	Hook          bool // whether the hook is asked about publishers later
	Loopback      bool // whether only this machine can reach the listener
}

// crossOrigin refuses requests from pages of other sites, except GET, HEAD and OPTIONS.
var crossOrigin = http.NewCrossOriginProtection()

// needsToken reports whether a client needs a token to publish the stream called name. If name is
// empty, it reports whether a client needs a token to write a blob.
func (p *Policy) needsToken(name string) bool {
	return p.Publish != "" || name != "" && len(p.Keys) > 0
}

// CheckPublish returns nil if the request r may publish the stream called name, and otherwise a
// [refuse.Refusal]. If name is empty, CheckPublish checks whether the request may write a blob.
func (p *Policy) CheckPublish(r *http.Request, name string) error {
	if crossOrigin.Check(r) != nil {
		return refuse.New(http.StatusForbidden,
			"publishing from a page of another site is not allowed")
	}
	err := p.MayPublish(p.requestToken(r), name, "Authorization: Bearer TOKEN, or ?token=TOKEN")
	if err == nil && !p.needsToken(name) && p.Loopback && !IsThisMachine(r.Host) {
		return refuse.New(http.StatusForbidden,
			"publishing without a token is for this machine only, and the request names "+
				"host %.80q: use 127.0.0.1 or localhost, or start with --publish-token", r.Host)
	}
	return err
}

// MayPublish returns nil if a client with the token tok may publish the stream called name, and
// otherwise a [refuse.Refusal]. If the client has sent no token, tok must be empty. If name is
// empty, MayPublish checks whether the client may write a blob. If a token is missing, the Refusal
// contains the text hint, which explains how to send a token.
//
// MayPublish is for protocols that web pages cannot use. For HTTP requests, use CheckPublish, which
// also checks the origin and the host name.
func (p *Policy) MayPublish(tok, name, hint string) error {
	switch {
	case p.needsToken(name) && tok == "":
		return refuse.New(http.StatusUnauthorized, "publishing needs the token: %s", hint)
	case p.needsToken(name):
		return p.checkToken(tok, token.Publish, name)
	case !p.Loopback && !(p.Hook && name != ""):
		return refuse.New(http.StatusForbidden,
			"publishing is off: this server can be reached from other machines and was started without --publish-token")
	}
	return nil
}

// checkRead returns nil if the client may make the request r, and otherwise a [refuse.Refusal]. A
// signed token allows the client to read only the stream in the path of r.
//
// If reading needs a token, a browser may send a cookie instead. If the request has a token, the
// cookie is ignored, because the cookie may belong to an older token.
func (p *Policy) checkRead(r *http.Request) error {
	tok, name := p.requestToken(r), streamname.InPath(r.URL.Path)
	if p.Read == "" && p.readNeedsToken(r) && p.checkToken(tok, token.Read, name) != nil {
		return refuse.New(http.StatusForbidden,
			"this server is for this machine only, and the request names host %.80q: "+
				"use 127.0.0.1 or localhost, or start with --read-token", r.Host)
	}
	if p.Read != "" && tok == "" {
		cookie, value := p.cookie()
		if c, err := r.Cookie(cookie); err == nil && sameToken(c.Value, value) {
			return nil
		}
	}
	return p.MayRead(tok, name, "?token=TOKEN, or Authorization: Bearer TOKEN")
}

func (p *Policy) readNeedsToken(r *http.Request) bool {
	return p.Read != "" || p.Loopback && !IsThisMachine(r.Host)
}

// MayRead returns nil if a client with the token tok may read the stream called name, and otherwise
// a [refuse.Refusal]. If the client has sent no token, tok must be empty. To read anything other
// than a stream, such as the metrics, pass an empty name. If a token is missing, the Refusal
// contains the text hint, which explains how to send a token.
//
// MayRead is for protocols that web pages cannot use. For HTTP requests, use [Gate.Protect], which
// also checks the cookie and the host name.
func (p *Policy) MayRead(tok, name, hint string) error {
	switch {
	case p.Read == "":
		return nil
	case tok == "":
		return refuse.New(http.StatusUnauthorized, "reading needs the token: %s", hint)
	}
	return p.checkToken(tok, token.Read, name)
}

// checkDecision returns a [refuse.Refusal] unless the client may end streams, disconnect viewers
// and stop the server.
func (p *Policy) checkDecision(r *http.Request) error {
	switch {
	case crossOrigin.Check(r) != nil:
		return refuse.New(http.StatusForbidden, "a page of another site decides nothing here")
	case p.Read == "" && !p.Loopback:
		return refuse.New(http.StatusForbidden,
			"other machines can reach this listener: deciding needs --admin-token")
	}
	return p.checkRead(r)
}

// checkToken returns nil if the token tok gives a client the right to read or publish the stream
// called name, and otherwise a [refuse.Refusal]. For everything except streams, such as the
// metrics, name must be empty.
func (p *Policy) checkToken(tok string, right token.Right, name string) error {
	wrong := "wrong token"
	if right == token.Publish {
		wrong = "wrong publish token"
	}
	switch {
	case p.Publish != "" && sameToken(tok, p.Publish), right == token.Read && p.Read != "" &&
		sameToken(tok, p.Read):
		return nil
	case len(p.Keys) == 0 || !token.Is(tok):
		return refuse.New(http.StatusForbidden, "%s", wrong)
	case name == "":
		return refuse.New(http.StatusForbidden, "%s: signed tokens are for streams", wrong)
	}
	t, err := p.Keys.Verify(tok, time.Now())
	if err == nil {
		err = t.Allow(right, name)
	}
	if err != nil {
		return refuse.New(http.StatusForbidden, "%s: %v", wrong, err)
	}
	return nil
}

// On copies the policy p for use on another listener. The argument loopback says whether only this
// machine can reach that listener.
func (p *Policy) On(loopback bool) *Policy {
	on := *p
	on.Loopback = loopback
	return &on
}

// Publishing returns who may publish: "token" (clients with a token), "hook" (clients that the hook
// allows), "open" (all clients) or "off" (no client).
func (p *Policy) Publishing() string {
	switch {
	case p.needsToken("any"):
		return "token"
	case p.Hook:
		return "hook"
	case p.Loopback:
		return "open"
	}
	return "off"
}

// Reading returns who may read: "open" means all clients, and "token" means clients with a token.
func (p *Policy) Reading() string {
	if p.Read != "" {
		return "token"
	}
	return "open"
}

// isPlain reports whether tok is the publish token or the read token. Each of these tokens allows a
// client to read everything.
func (p *Policy) isPlain(tok string) bool {
	return p.Publish != "" && sameToken(tok, p.Publish) || p.Read != "" &&
		sameToken(tok, p.Read)
}

// cookie returns the name and value of the cookie that replaces the read token in a browser.
// Browsers send a cookie to all ports of a host, including ports of other programs. The value
// therefore does not reveal the token. The name depends on the token, so that several servers on
// one host have separate cookies.
func (p *Policy) cookie() (name, value string) {
	sum := sha256.Sum256([]byte("millrace-read\x00" + p.Read))
	text := hex.EncodeToString(sum[:])
	return "millrace-read-" + text[:8], text[8:]
}

func (p *Policy) requestToken(r *http.Request) string {
	if scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok &&
		strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(token)
	}
	return p.QueryToken(r.URL.RawQuery)
}

// QueryToken returns the token in a query, or "" if there is none.
//
// People type tokens literally, and programs escape tokens in different ways. QueryToken therefore
// decodes the token in several ways. If one of the results is the publish token or the read token,
// QueryToken returns that result. Otherwise it returns the token with its percent-encoding decoded.
func (p *Policy) QueryToken(query string) string {
	for len(query) > 0 && !strings.HasPrefix(query, "token=") {
		_, query, _ = strings.Cut(query, "&")
	}
	if query == "" { // as usual for players
		return ""
	}
	rest := strings.TrimPrefix(query, "token=")
	typed, _, _ := strings.Cut(rest, "&")
	plain := unescape(url.PathUnescape, typed)
	for _, reading := range []string{plain, typed, unescape(url.QueryUnescape, typed), rest} {
		if p.isPlain(reading) {
			return reading
		}
	}
	return plain
}

func unescape(decode func(string) (string, error), text string) string {
	if plain, err := decode(text); err == nil {
		return plain
	}
	return text
}

// sameToken reports whether two tokens are equal, in constant time.
func sameToken(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}
