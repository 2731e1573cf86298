package server

import (
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"net/http"
	"strings"
)

// A readGate lets those look who show a token: at streams, files, blobs, the page, the API and the metrics. /healthz stays
// open, because who asks for it can often show nothing, and so does OPTIONS, with which browsers never show anything.
//
// A browser shows the token once, as ?token=TOKEN of a page that it opens, and gets a cookie in return: the page's requests,
// the players and the links on it go without. The cookie opens nothing that writes.
//
// Browsers show a cookie to all ports of a host. So its value does not tell the token, and its name is another for another
// token: servers beside each other do not take each other's away.
//
// Invariant: read != "".
type readGate struct {
	read, publish string // either opens; publish may be empty
	name, value   string // of the cookie
}

func newReadGate(read, publish string) *readGate {
	sum := sha256.Sum256([]byte("millrace-read\x00" + read))
	text := hex.EncodeToString(sum[:])
	return &readGate{read: read, publish: publish, name: "millrace-read-" + text[:8], value: text[8:]}
}

// guard returns next behind a readGate, if a token is asked for.
func (s *Server) guard(next http.Handler) http.Handler {
	if s.cfg.ReadToken == "" {
		return next
	}
	g := newReadGate(s.cfg.ReadToken, s.cfg.PublishToken)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		if r.Method != http.MethodGet && r.Method != http.MethodHead || r.URL.Path == "/healthz" {
			next.ServeHTTP(w, r)
			return
		}
		status, reason := g.check(r)
		if status != 0 {
			level := slog.LevelWarn
			if status == http.StatusUnauthorized {
				level = slog.LevelDebug // whoever tries all addresses of a network would fill the log
				h.Set("WWW-Authenticate", `Bearer realm="millrace"`)
			}
			s.log.Log(r.Context(), level, "reader refused", "path", r.URL.Path, "client", r.RemoteAddr, "status", status, "reason", reason)
			if strings.HasPrefix(r.URL.Path, "/live/") {
				h.Set("Access-Control-Allow-Origin", "*") // or a player on another site is told nothing
			}
			refuseBody(w, r, status, reason)
			return
		}
		h.Set("Cache-Control", "private") // not for a cache that all share; who sets another has it ask here each time
		if r.URL.Query().Has("token") && strings.Contains(r.Header.Get("Accept"), "text/html") {
			h.Set("Referrer-Policy", "same-origin") // the address has the token in it
			http.SetCookie(w, &http.Cookie{Name: g.name, Value: g.value, Path: "/", HttpOnly: true,
				Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode})
		}
		next.ServeHTTP(w, r)
	})
}

// check returns 0 if the request may read, or the status and the reason of the refusal. A token that is shown counts, and
// only without one the cookie, which may be of an older token.
func (g *readGate) check(r *http.Request) (status int, reason string) {
	if shown := shownToken(r); shown != "" {
		if sameToken(shown, g.read) || g.publish != "" && sameToken(shown, g.publish) {
			return 0, ""
		}
		return http.StatusForbidden, "wrong token"
	}
	if c, err := r.Cookie(g.name); err == nil && sameToken(c.Value, g.value) {
		return 0, ""
	}
	return http.StatusUnauthorized, "reading needs the token: ?token=TOKEN, or Authorization: Bearer TOKEN"
}
