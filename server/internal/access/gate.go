package access

import (
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/millrace-io/millrace/server/internal/hook"
)

// A Gate admits the clients of a listener: first by its current Policy, and then by the hook, if
// there is one. The Policy may be replaced at any time.
type Gate struct {
	policy   atomic.Pointer[Policy]
	hook     *hook.Client // may be nil
	refusals *Refusals
}

// NewGate returns a gate. The caller must call SetPolicy before the first use. The gate borrows h.
// If there is no hook, h is nil.
func NewGate(h *hook.Client, refusals *Refusals) *Gate { return &Gate{hook: h, refusals: refusals} }

// Policy returns the current policy, or nil before SetPolicy.
func (g *Gate) Policy() *Policy { return g.policy.Load() }

// SetPolicy replaces the policy. The gate shares p with other goroutines, so p must not be changed
// afterwards.
func (g *Gate) SetPolicy(p *Policy) { g.policy.Store(p) }

// Protect returns a handler that calls next for clients that may read, and refuses others. A
// handler of requests that write must check the permission to write itself. OPTIONS is open to
// everyone, because browsers cannot send a token with it.
func (g *Gate) Protect(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			next.ServeHTTP(w, r)
			return
		}
		p := g.Policy()
		if err := p.checkRead(r); err != nil {
			g.refusals.Refuse(KindOf(r), w, r, err)
			return
		}
		if p.Read != "" {
			// Shared caches must not keep the response. A handler may add no-cache to this value.
			w.Header().Set("Cache-Control", "private")
			p.giveCookie(w, r)
		}
		next.ServeHTTP(w, r)
	})
}

// giveCookie sets the cookie in the response to a browser that opens a page with the plain token. A
// browser with a signed token gets no cookie, because the cookie gives access to everything, and a
// signed token only to one stream.
func (p *Policy) giveCookie(w http.ResponseWriter, r *http.Request) {
	shown := p.QueryToken(r.URL.RawQuery)
	if shown == "" || !strings.Contains(r.Header.Get("Accept"), "text/html") || !p.isPlain(shown) {
		return
	}
	w.Header().Set("Referrer-Policy", "same-origin") // the address contains the token
	name, value := p.cookie()
	http.SetCookie(w, &http.Cookie{Name: name, Value: value, Path: "/", HttpOnly: true,
		Secure: overTLS(r), SameSite: http.SameSiteStrictMode})
}

// ProtectDecision returns a handler that calls next for clients that may use the operator's
// actions, and refuses others.
func (g *Gate) ProtectDecision(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := g.Policy().checkDecision(r); err != nil {
			g.refusals.Refuse(Reader, w, r, err)
			return
		}
		next(w, r)
	}
}
