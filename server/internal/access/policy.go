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

// A Policy decides what clients of a listener may do. It is immutable. To change the policy, give
// the [Gate] another one.
//
// These clients may publish streams and write blobs:
//
//   - If there is a publish token: a client that shows the token.
//   - If there are keys: a client that shows a token signed with one of the keys, for the stream
//     that it publishes. Keys do not matter for blobs.
//   - If a token is not needed: a client of a loopback listener, if the Host of its request names
//     this machine. Host matters because a web page can make its own host name resolve to
//     127.0.0.1, and would then count as same-origin (DNS rebinding).
//   - If a token is not needed and there is a hook: clients of other listeners may publish streams,
//     too. The hook is asked after the policy.
//   - A page of another site may never write.
//
// These clients may read streams, files, blobs, the page, the API and the metrics:
//
//   - If there is a read token: a client that shows the read token, the publish token, or a signed
//     token for the requested stream.
//   - If there is no read token: every client. But on a loopback listener, the Host of the request
//     must name this machine, or the client must show the publish token or a signed token for the
//     requested stream.
//
// A browser that opens a page with ?token=TOKEN gets a cookie, so that the page's requests, players
// and links need no token. The cookie gives no right to write.
//
// A client may use the operator's actions, on the admin listener, if it may read there, and shows
// the token or connects over loopback. A page of another site may never use them.
type Policy struct {
	Publish, Read string // may be empty
	Keys          token.Keys
	Hook          bool // a hook decides about publishers after this policy
	Loopback      bool // whether only this machine can reach the listener
}

// crossOrigin refuses requests from pages of other sites, except for GET, HEAD and OPTIONS.
var crossOrigin = http.NewCrossOriginProtection()

// needsToken reports whether a client must show a token to publish the named stream, or to write a
// blob if name is empty.
func (p *Policy) needsToken(name string) bool {
	return p.Publish != "" || name != "" && len(p.Keys) > 0
}

// CheckPublish returns nil if the request may publish the named stream. If name is empty, it
// returns nil if the request may write a blob. Otherwise it returns a [refuse.Refusal].
func (p *Policy) CheckPublish(r *http.Request, name string) error {
	if crossOrigin.Check(r) != nil {
		return refuse.New(http.StatusForbidden,
			"publishing from a page of another site is not allowed")
	}
	err := p.MayPublish(p.shownToken(r), name, "Authorization: Bearer TOKEN, or ?token=TOKEN")
	if err == nil && !p.needsToken(name) && p.Loopback && !IsThisMachine(r.Host) {
		return refuse.New(http.StatusForbidden,
			"publishing without a token is for this machine only, and the request names "+
				"host %.80q: use 127.0.0.1 or localhost, or start with --publish-token", r.Host)
	}
	return err
}

// MayPublish is CheckPublish for protocols that web pages cannot use. shown is the client's token
// or "". how says how to send a token; it becomes part of a refusal.
func (p *Policy) MayPublish(shown, name, how string) error {
	switch {
	case p.needsToken(name) && shown == "":
		return refuse.New(http.StatusUnauthorized, "publishing needs the token: %s", how)
	case p.needsToken(name):
		return p.checkToken(shown, token.Publish, name)
	case !p.Loopback && !(p.Hook && name != ""):
		return refuse.New(http.StatusForbidden,
			"publishing is off: this server can be reached from other machines and was started without --publish-token")
	}
	return nil
}

// checkRead returns nil if the request may read, and otherwise a [refuse.Refusal]. The cookie
// counts only if the request contains no token, because the cookie may be from an older token.
func (p *Policy) checkRead(r *http.Request) error {
	shown, name := p.shownToken(r), streamname.InPath(r.URL.Path)
	if p.Read == "" && p.readNeedsToken(r) && p.checkToken(shown, token.Read, name) != nil {
		return refuse.New(http.StatusForbidden,
			"this server is for this machine only, and the request names host %.80q: "+
				"use 127.0.0.1 or localhost, or start with --read-token", r.Host)
	}
	if p.Read != "" && shown == "" {
		cookie, value := p.cookie()
		if c, err := r.Cookie(cookie); err == nil && sameToken(c.Value, value) {
			return nil
		}
	}
	return p.MayRead(shown, name, "?token=TOKEN, or Authorization: Bearer TOKEN")
}

// readNeedsToken reports whether a client must show a token to read.
func (p *Policy) readNeedsToken(r *http.Request) bool {
	return p.Read != "" || p.Loopback && !IsThisMachine(r.Host)
}

// MayRead is checkRead for protocols that web pages cannot use. shown is the client's token or "".
// how says how to send a token; it becomes part of a refusal.
func (p *Policy) MayRead(shown, name, how string) error {
	switch {
	case p.Read == "":
		return nil
	case shown == "":
		return refuse.New(http.StatusUnauthorized, "reading needs the token: %s", how)
	}
	return p.checkToken(shown, token.Read, name)
}

// checkDecision returns nil if the request may use the operator's actions, or a [refuse.Refusal].
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

// checkToken returns nil if the token shown gives the right to the named stream. If name is empty,
// it returns nil if the token gives the right to everything that is not a stream.
func (p *Policy) checkToken(shown string, right token.Right, name string) error {
	wrong := "wrong token"
	if right == token.Publish {
		wrong = "wrong publish token"
	}
	switch {
	case p.Publish != "" && sameToken(shown, p.Publish), right == token.Read && p.Read != "" &&
		sameToken(shown, p.Read):
		return nil
	case len(p.Keys) == 0 || !token.Is(shown):
		return refuse.New(http.StatusForbidden, "%s", wrong)
	case name == "":
		return refuse.New(http.StatusForbidden, "%s: signed tokens are for streams", wrong)
	}
	t, err := p.Keys.Verify(shown, time.Now())
	if err == nil {
		err = t.Allow(right, name)
	}
	if err != nil {
		return refuse.New(http.StatusForbidden, "%s: %v", wrong, err)
	}
	return nil
}

// On returns a copy of p for a listener. loopback says whether only this machine can reach the
// listener.
func (p *Policy) On(loopback bool) *Policy {
	on := *p
	on.Loopback = loopback
	return &on
}

// Publishing returns how publishers are authorized: by a token ("token"), by the hook ("hook"), not
// at all ("open"), or never ("off").
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

// Reading returns how readers are authorized: not at all ("open") or by a token ("token").
func (p *Policy) Reading() string {
	if p.Read != "" {
		return "token"
	}
	return "open"
}

// isPlain reports whether shown is a plain token that gives the right to read everything.
func (p *Policy) isPlain(shown string) bool {
	return p.Publish != "" && sameToken(shown, p.Publish) || p.Read != "" &&
		sameToken(shown, p.Read)
}

// cookie returns the cookie of a browser that has shown the token. Browsers send a cookie to all
// ports of a host. Therefore the cookie's value does not reveal the token. The cookie's name
// depends on the token, so that several servers on one host have separate cookies.
func (p *Policy) cookie() (name, value string) {
	sum := sha256.Sum256([]byte("millrace-read\x00" + p.Read))
	text := hex.EncodeToString(sum[:])
	return "millrace-read-" + text[:8], text[8:]
}

// shownToken returns the token in the request, or "".
func (p *Policy) shownToken(r *http.Request) string {
	if scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok &&
		strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(token)
	}
	return p.QueryToken(r.URL.RawQuery)
}

// QueryToken returns the token in a query, or "". People type a token literally, and programs
// escape it in different ways. QueryToken tries several ways to decode it. It returns the first
// result that is a plain token of p or, if none is, the first result.
func (p *Policy) QueryToken(query string) string {
	for len(query) > 0 && !strings.HasPrefix(query, "token=") {
		_, query, _ = strings.Cut(query, "&")
	}
	if query == "" { // the usual case for players
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

// unescape returns by(text), or text if by fails.
func unescape(by func(string) (string, error), text string) string {
	if plain, err := by(text); err == nil {
		return plain
	}
	return text
}

// sameToken compares two tokens in a time that does not depend on their contents or lengths.
func sameToken(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}
