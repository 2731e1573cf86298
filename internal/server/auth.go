package server

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/millrace-io/millrace/internal/relay"
	"github.com/millrace-io/millrace/internal/token"
)

// A publishAuth decides who may publish, and write blobs. It does not change: with another token there is another one.
//
//   - With a token: a client that shows it, on every listener.
//   - With keys: a client that shows a token which one of them has signed, for the stream that it publishes.
//   - Without: a client of a loopback listener that names this machine in Host. The name matters because a page in a
//     browser can make its own host name resolve to 127.0.0.1, and would then count as same-origin (DNS rebinding).
//   - With a hook and without a token: as without, and on other listeners a client that the hook allows, which is asked later.
//   - In all cases never a page of another site.
type publishAuth struct {
	token    string
	keys     token.Keys
	loopback bool
	hook     bool // a hook decides, too
	cross    *http.CrossOriginProtection
}

func newPublishAuth(token string, keys token.Keys, listener net.Addr) *publishAuth {
	return &publishAuth{token: token, keys: keys, loopback: isLoopback(listener), cross: http.NewCrossOriginProtection()}
}

// needsToken reports whether a client must show a token to publish the stream of a name, or, if that is empty, to write a blob.
func (a *publishAuth) needsToken(name string) bool {
	return a.token != "" || name != "" && len(a.keys) > 0
}

// check returns 0 if the request may publish the stream of a name, or the status and the reason of the refusal. Without a
// name it is about a blob.
func (a *publishAuth) check(r *http.Request, name string) (status int, reason string) {
	if err := a.cross.Check(r); err != nil {
		return http.StatusForbidden, "publishing from a page of another site is not allowed"
	}
	status, reason = a.checkToken(shownToken(r), name, "Authorization: Bearer TOKEN, or ?token=TOKEN")
	if status == 0 && !a.needsToken(name) && a.loopback && !isLocalName(r.Host) {
		return http.StatusForbidden, fmt.Sprintf("publishing without a token is for this machine only, and the request names "+
			"host %.80q: use 127.0.0.1 or localhost, or start with --publish-token", r.Host)
	}
	return status, reason
}

// checkToken is check for a client that no web page can be: it shows a token, or "". how says how to show one.
func (a *publishAuth) checkToken(shown, name, how string) (status int, reason string) {
	switch {
	case !a.needsToken(name) && !a.loopback && !a.hook:
		return http.StatusForbidden,
			"publishing is off: this server can be reached from other machines and was started without --publish-token"
	case !a.needsToken(name):
		return 0, ""
	case shown == "":
		return http.StatusUnauthorized, "publishing needs the token: " + how
	case a.token != "" && sameToken(shown, a.token):
		return 0, ""
	}
	if ok, why := signedFor(a.keys, shown, token.Publish, name); !ok {
		return http.StatusForbidden, "wrong publish token" + why
	}
	return 0, ""
}

// signedFor reports whether one of keys has signed the token for a right to the stream of a name. If not, why is the end of a
// sentence about a wrong token.
func signedFor(keys token.Keys, shown string, right token.Right, name string) (ok bool, why string) {
	switch {
	case len(keys) == 0 || !token.Is(shown):
		return false, ""
	case name == "":
		return false, ": signed tokens are for streams"
	}
	t, err := keys.Verify(shown)
	if err == nil {
		err = t.Allow(right, name, time.Now())
	}
	if err != nil {
		return false, ": " + err.Error()
	}
	return true, ""
}

// on returns a for a listener that only this machine can reach, or all.
func (a *publishAuth) on(loopback bool) *publishAuth {
	on := *a
	on.loopback = loopback
	return &on
}

// withoutHook returns a for what no hook is asked about.
func (a *publishAuth) withoutHook() *publishAuth {
	without := *a
	without.hook = false
	return &without
}

// policy says what a publisher needs: a token ("token"), what a hook asks for ("hook"), nothing ("open"), or that publishing is impossible ("off").
func (a *publishAuth) policy() string {
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

// mayPublish returns 0 if the request may publish the stream of a name, or write a blob if that is empty, or the status and the reason of the refusal. It notes a refusal and
// sets the headers of the answer, which the caller writes.
func (s *Server) mayPublish(w http.ResponseWriter, r *http.Request, client clientKind, name string) (status int, reason string) {
	auth := s.publishAuth.Load()
	if client != clientPublisher {
		auth = auth.withoutHook()
	}
	if status, reason = auth.check(r, name); status == 0 {
		return 0, ""
	}
	s.refused(client, r, &relay.Refusal{Status: status, Reason: reason})
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="millrace"`)
	}
	return status, reason
}

// A readAuth decides who may read: streams, files, blobs, the page, the API and the metrics. It does not change.
//
//   - With a token: a client that shows it, or that of publishers, or one that is signed for the stream that it asks for.
//   - Without: every client; on a loopback listener, a client that names this machine in Host or shows such a token. Otherwise a page of another site could read through a browser of this machine (DNS rebinding).
//
// A browser shows one of the two plain tokens once, as ?token=TOKEN of a page that it opens, and gets a cookie in return, so that the
// page's requests, players and links need no token. The cookie gives no right to write. Browsers send a cookie to all
// ports of a host: its value does not reveal the token, and its name depends on the token, so that servers beside each
// other keep their own.
type readAuth struct {
	token, publish string // both may be empty
	keys           token.Keys
	loopback       bool

	cookieName, cookieValue string
}

func newReadAuth(token, publish string, keys token.Keys, listener net.Addr) *readAuth {
	sum := sha256.Sum256([]byte("millrace-read\x00" + token))
	text := hex.EncodeToString(sum[:])
	return &readAuth{token: token, publish: publish, keys: keys, loopback: isLoopback(listener),
		cookieName: "millrace-read-" + text[:8], cookieValue: text[8:]}
}

// check returns 0 if the request may read, or the status and the reason of the refusal. The cookie counts only if no
// token is shown: it may come from an older token.
func (a *readAuth) check(r *http.Request) (status int, reason string) {
	shown := shownToken(r)
	ok, why := false, ""
	if shown != "" {
		ok, why = a.checkShown(shown, requestedStream(r))
	}
	switch {
	case ok:
		return 0, ""
	case a.token == "" && a.loopback && !isLocalName(r.Host):
		return http.StatusForbidden, fmt.Sprintf("this server is for this machine only, and the request names host %.80q: "+
			"use 127.0.0.1 or localhost, or start with --read-token", r.Host)
	case a.token == "":
		return 0, ""
	case shown != "":
		return http.StatusForbidden, "wrong token" + why
	}
	if c, err := r.Cookie(a.cookieName); err == nil && sameToken(c.Value, a.cookieValue) {
		return 0, ""
	}
	return http.StatusUnauthorized, "reading needs the token: ?token=TOKEN, or Authorization: Bearer TOKEN"
}

// checkShown reports whether a token gives the right to read the stream of a name, or anything else if that is empty. If not,
// why is the end of a sentence.
func (a *readAuth) checkShown(shown, name string) (ok bool, why string) {
	if a.isPlain(shown) {
		return true, ""
	}
	return signedFor(a.keys, shown, token.Read, name)
}

// isPlain reports whether a token gives the right to read everything.
func (a *readAuth) isPlain(shown string) bool {
	return a.token != "" && sameToken(shown, a.token) || a.publish != "" && sameToken(shown, a.publish)
}

// checkToken is check for a client that no web page can be: it shows a token, or "". how says how to show one.
func (a *readAuth) checkToken(shown, name, how string) (status int, reason string) {
	switch {
	case a.token == "":
		return 0, ""
	case shown == "":
		return http.StatusUnauthorized, "reading needs the token: " + how
	}
	if ok, why := a.checkShown(shown, name); !ok {
		return http.StatusForbidden, "wrong token" + why
	}
	return 0, ""
}

// requestedStream returns the name of the stream that the request is about, or "".
func requestedStream(r *http.Request) string {
	path, ok := strings.CutPrefix(r.URL.Path, "/live/")
	if !ok {
		return ""
	}
	return relay.StreamName(path)
}

// policy says what a reader needs: nothing ("open") or a token ("token").
func (a *readAuth) policy() string {
	if a.token != "" {
		return "token"
	}
	return "open"
}

// protect returns next for clients that may read, as auth says at the time. Requests that write are for publishAuth, and OPTIONS and /healthz are
// for everyone: browsers and monitors cannot show a token with them.
func (s *Server) protect(auth func() *readAuth, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		a := auth()
		if r.Method != http.MethodGet && r.Method != http.MethodHead || r.URL.Path == "/healthz" {
			next.ServeHTTP(w, r)
			return
		}
		status, reason := a.check(r)
		if status != 0 {
			if status == http.StatusUnauthorized {
				h.Set("WWW-Authenticate", `Bearer realm="millrace"`)
			}
			client := clientReader
			if strings.HasPrefix(r.URL.Path, "/live/") {
				client = clientViewer
				s.origins.Load().allow(h, r) // without it a player on another site cannot see the status
			}
			s.refused(client, r, &relay.Refusal{Status: status, Reason: reason})
			refuseBody(w, r, status, reason)
			return
		}
		if a.token != "" {
			h.Set("Cache-Control", "private") // not for shared caches; a handler may add no-cache
			// A signed token is for one stream, and the cookie for everything.
			if shown := queryToken(r); shown != "" && strings.Contains(r.Header.Get("Accept"), "text/html") && a.isPlain(shown) {
				h.Set("Referrer-Policy", "same-origin") // the address has the token in it
				http.SetCookie(w, &http.Cookie{Name: a.cookieName, Value: a.cookieValue, Path: "/", HttpOnly: true,
					Secure: overTLS(r), SameSite: http.SameSiteStrictMode})
			}
		}
		next.ServeHTTP(w, r)
	})
}

// shownToken returns the token in the request, or "".
func shownToken(r *http.Request) string {
	if scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(token)
	}
	return queryToken(r)
}

// queryToken returns the token in the address, or "".
func queryToken(r *http.Request) string {
	if !strings.Contains(r.URL.RawQuery, "token=") { // most requests of players have a query without it
		return ""
	}
	return r.URL.Query().Get("token")
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
