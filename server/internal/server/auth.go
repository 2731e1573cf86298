package server

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace/server/internal/hook"
	"github.com/millrace-io/millrace/server/internal/refuse"
	"github.com/millrace-io/millrace/server/internal/token"
)

// access decides who may publish, watch and read: by tokens, by the hook, and by the site of a player.
type access struct {
	auth     atomic.Pointer[auth] // of the main listener and RTMP
	operator atomic.Pointer[auth] // of the admin listener: whose token to read is that of the operator
	origins  atomic.Pointer[origins]
	hook     *hook.Client // nil if none is asked

	refusals *refusals
	log      *slog.Logger
}

// An auth decides who may do what on a listener. It does not change: Reload makes another one.
//
// May publish, and write blobs:
//
//   - With a token: a client that shows it.
//   - With keys: a client that shows a token which one of them has signed, for the stream that it publishes.
//   - Without both: a client of a loopback listener that names this machine in Host. The name matters because a page in
//     a browser can make its own host name resolve to 127.0.0.1, and would then count as same-origin (DNS rebinding).
//   - With a hook and without a token: also a client of another listener, to publish. The hook is asked later.
//   - In all cases never a page of another site.
//
// May read streams, files, blobs, the page, the API and the metrics:
//
//   - With a token: a client that shows it, or that of publishers, or one that is signed for the stream in question.
//   - Without: every client; on a loopback listener, a client that names this machine in Host or shows such a token.
//
// A browser shows the token once, as ?token=TOKEN of a page that it opens, and gets a cookie in return, so that the
// page's requests, players and links need no token. The cookie gives no right to write.
//
// May decide, on the admin listener: a client that may read there, and shows the token or comes by loopback; never a
// page of another site.
type auth struct {
	publish, read string // tokens; either may be empty
	keys          token.Keys
	hook          bool // a hook decides about publishers, too
	loopback      bool // only this machine can reach the listener
}

// crossOrigin refuses requests of pages of other sites.
var crossOrigin = http.NewCrossOriginProtection()

// needsToken reports whether a client must show a token to publish the stream of a name, or to write a blob if that is
// empty.
func (a *auth) needsToken(name string) bool {
	return a.publish != "" || name != "" && len(a.keys) > 0
}

// checkPublish returns nil if the request may publish the stream of a name, or write a blob if that is empty, or a
// [refuse.Refusal].
func (a *auth) checkPublish(r *http.Request, name string) error {
	if crossOrigin.Check(r) != nil {
		return refuse.New(http.StatusForbidden, "publishing from a page of another site is not allowed")
	}
	err := a.mayPublish(a.shownToken(r), name, "Authorization: Bearer TOKEN, or ?token=TOKEN")
	if err == nil && !a.needsToken(name) && a.loopback && !isLocalName(r.Host) {
		return refuse.New(http.StatusForbidden, "publishing without a token is for this machine only, and the request names "+
			"host %.80q: use 127.0.0.1 or localhost, or start with --publish-token", r.Host)
	}
	return err
}

// mayPublish is checkPublish for a client that no web page can be: it shows a token, or "". how says how to show one.
func (a *auth) mayPublish(shown, name, how string) error {
	switch {
	case a.needsToken(name) && shown == "":
		return refuse.New(http.StatusUnauthorized, "publishing needs the token: %s", how)
	case a.needsToken(name):
		return a.checkToken(shown, token.Publish, name)
	case !a.loopback && !(a.hook && name != ""):
		return refuse.New(http.StatusForbidden,
			"publishing is off: this server can be reached from other machines and was started without --publish-token")
	}
	return nil
}

// checkRead returns nil if the request may read, or a [refuse.Refusal]. The cookie counts only if no token is shown: it
// may come from an older token.
func (a *auth) checkRead(r *http.Request) error {
	shown, name := a.shownToken(r), requestedStream(r)
	if a.read == "" && a.readNeedsToken(r) && a.checkToken(shown, token.Read, name) != nil {
		return refuse.New(http.StatusForbidden, "this server is for this machine only, and the request names host %.80q: "+
			"use 127.0.0.1 or localhost, or start with --read-token", r.Host)
	}
	if a.read != "" && shown == "" {
		cookie, value := a.cookie()
		if c, err := r.Cookie(cookie); err == nil && sameToken(c.Value, value) {
			return nil
		}
	}
	return a.mayRead(shown, name, "?token=TOKEN, or Authorization: Bearer TOKEN")
}

// readNeedsToken reports whether a client must show a token to read.
func (a *auth) readNeedsToken(r *http.Request) bool {
	return a.read != "" || a.loopback && !isLocalName(r.Host)
}

// mayRead is checkRead for a client that no web page can be: it shows a token, or "". how says how to show one.
func (a *auth) mayRead(shown, name, how string) error {
	switch {
	case a.read == "":
		return nil
	case shown == "":
		return refuse.New(http.StatusUnauthorized, "reading needs the token: %s", how)
	}
	return a.checkToken(shown, token.Read, name)
}

// checkDecision returns nil if the request may decide, or a [refuse.Refusal].
func (a *auth) checkDecision(r *http.Request) error {
	switch {
	case crossOrigin.Check(r) != nil:
		return refuse.New(http.StatusForbidden, "a page of another site decides nothing here")
	case a.read == "" && !a.loopback:
		return refuse.New(http.StatusForbidden, "other machines can reach this listener: deciding needs --admin-token")
	}
	return a.checkRead(r)
}

// checkToken returns nil if a token gives a right to the stream of a name, or to all but streams if that is empty.
func (a *auth) checkToken(shown string, right token.Right, name string) error {
	wrong := "wrong token"
	if right == token.Publish {
		wrong = "wrong publish token"
	}
	switch {
	case a.publish != "" && sameToken(shown, a.publish), right == token.Read && a.read != "" && sameToken(shown, a.read):
		return nil
	case len(a.keys) == 0 || !token.Is(shown):
		return refuse.New(http.StatusForbidden, "%s", wrong)
	case name == "":
		return refuse.New(http.StatusForbidden, "%s: signed tokens are for streams", wrong)
	}
	t, err := a.keys.Verify(shown, time.Now())
	if err == nil {
		err = t.Allow(right, name)
	}
	if err != nil {
		return refuse.New(http.StatusForbidden, "%s: %v", wrong, err)
	}
	return nil
}

// on returns a for a listener that only this machine can reach, or all.
func (a *auth) on(loopback bool) *auth {
	on := *a
	on.loopback = loopback
	return &on
}

// publishPolicy says what a publisher needs: a token ("token"), what a hook asks for ("hook"), nothing ("open"), or
// that publishing is impossible ("off").
func (a *auth) publishPolicy() string {
	switch {
	case a.needsToken("any"):
		return "token"
	case a.hook:
		return "hook"
	case a.loopback:
		return "open"
	}
	return "off"
}

// readPolicy says what a reader needs: nothing ("open") or a token ("token").
func (a *auth) readPolicy() string {
	if a.read != "" {
		return "token"
	}
	return "open"
}

// isPlain reports whether a token gives the right to read everything.
func (a *auth) isPlain(shown string) bool {
	return a.publish != "" && sameToken(shown, a.publish) || a.read != "" && sameToken(shown, a.read)
}

// cookie returns the cookie of a browser that has shown the token. Browsers send a cookie to all ports of a host: its
// value does not reveal the token, and its name depends on the token, so that servers beside each other keep their own.
func (a *auth) cookie() (name, value string) {
	sum := sha256.Sum256([]byte("millrace-read\x00" + a.read))
	text := hex.EncodeToString(sum[:])
	return "millrace-read-" + text[:8], text[8:]
}

// protect returns next for clients that may read, as auth says at the time. Requests that write are checked by their
// handlers, and OPTIONS and /healthz are for everyone: browsers and monitors cannot show a token with them.
func (s *access) protect(auth func() *auth, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead || r.URL.Path == "/healthz" {
			next.ServeHTTP(w, r)
			return
		}
		h, a := w.Header(), auth()
		if err := a.checkRead(r); err != nil {
			s.refusals.refuse(wanted(r), w, r, err)
			return
		}
		if a.read != "" {
			h.Set("Cache-Control", "private") // not for shared caches; a handler may add no-cache
			// A signed token is for one stream, and the cookie for everything.
			if shown := a.queryToken(r.URL.RawQuery); shown != "" && strings.Contains(r.Header.Get("Accept"), "text/html") && a.isPlain(shown) {
				h.Set("Referrer-Policy", "same-origin") // the address has the token in it
				name, value := a.cookie()
				http.SetCookie(w, &http.Cookie{Name: name, Value: value, Path: "/", HttpOnly: true,
					Secure: overTLS(r), SameSite: http.SameSiteStrictMode})
			}
		}
		next.ServeHTTP(w, r)
	})
}

// shownToken returns the token in the request, or "".
func (a *auth) shownToken(r *http.Request) string {
	if scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(token)
	}
	return a.queryToken(r.URL.RawQuery)
}

// queryToken returns the token in a query, or "". People type a token as it is, and programs escape
// it, as a form or otherwise: it is the first of these readings that is a token of a, or the first
// of all.
func (a *auth) queryToken(query string) string {
	for len(query) > 0 && !strings.HasPrefix(query, "token=") {
		_, query, _ = strings.Cut(query, "&")
	}
	if query == "" { // most requests of players
		return ""
	}
	rest := strings.TrimPrefix(query, "token=")
	typed, _, _ := strings.Cut(rest, "&")
	plain := unescape(url.PathUnescape, typed)
	for _, reading := range []string{plain, typed, unescape(url.QueryUnescape, typed), rest} {
		if a.isPlain(reading) {
			return reading
		}
	}
	return plain
}

// unescape returns text as a function reads it, or as it is if that is impossible.
func unescape(by func(string) (string, error), text string) string {
	if plain, err := by(text); err == nil {
		return plain
	}
	return text
}

// changedInURL reports whether a URL, or a program that reads one, may change a token.
func changedInURL(token string) bool {
	return strings.HasSuffix(token, "/") || strings.ContainsFunc(token, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune("+%&;#?\"'<>\\^`{|}[]", r)
	})
}

// sameToken compares in a time that depends neither on where the two differ nor on their lengths.
func sameToken(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}

// isLoopback reports whether only this machine can reach a listener at a.
func isLoopback(a net.Addr) bool {
	switch a := a.(type) {
	case *net.TCPAddr:
		return a.IP.IsLoopback()
	case *net.UnixAddr:
		return true
	default:
		return false
	}
}

// isLocalName reports whether the host of a request can only mean this machine.
func isLocalName(hostport string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if host == "" || strings.EqualFold(host, "localhost") || strings.HasSuffix(strings.ToLower(host), ".localhost") {
		return true // HTTP/1.0 has no host, and browsers do not speak it
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// decision returns next for clients that may decide.
func (s *access) decision(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := s.operator.Load().checkDecision(r); err != nil {
			s.refusals.refuse(clientReader, w, r, err)
			return
		}
		next(w, r)
	}
}
