package access

import (
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/millrace-io/millrace/server/internal/hook"
)

// A Gate admits the clients of a listener. It first applies its current Policy, and then asks the
// hook if there is one. The Policy may be replaced at any time.
type Gate struct {
	policy   atomic.Pointer[Policy]
	hook     *hook.Client // nil if there is no hook
	refusals *Refusals
}

// NewGate returns a Gate. The caller must call SetPolicy before the first request.
//
// The argument h is a client of the hook, which is an HTTP service of the operator, or nil if there
// is no hook. The Gate borrows h.
func NewGate(h *hook.Client, refusals *Refusals) *Gate { return &Gate{hook: h, refusals: refusals} }

// Policy returns the current policy, or nil if SetPolicy has not been called yet.
func (g *Gate) Policy() *Policy { return g.policy.Load() }

// SetPolicy replaces the policy. The caller must not change p afterwards.
func (g *Gate) SetPolicy(p *Policy) { g.policy.Store(p) }

// Protect returns a handler that passes a GET or HEAD request to next if the client may read, and
// otherwise refuses the request. The returned handler passes requests with other methods to next
// without a check. If next allows clients to write, next itself must check the permission. An
// OPTIONS request needs no token, because browsers cannot send a token with OPTIONS.
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
			// Shared caches must not store the response. A handler may add no-cache to the header.
			w.Header().Set("Cache-Control", "private")
			p.giveCookie(w, r)
		}
		next.ServeHTTP(w, r)
	})
}

// giveCookie sets a cookie if a browser opens a page with the publish token or the read token. The
// cookie allows the browser to read everything. A signed token gives access only to the streams
// that it names, so giveCookie sets no cookie for a signed token.
func (p *Policy) giveCookie(w http.ResponseWriter, r *http.Request) {
	tok := p.QueryToken(r.URL.RawQuery)
	if tok == "" || !strings.Contains(r.Header.Get("Accept"), "text/html") || !p.isPlain(tok) {
		return
	}
	w.Header().Set("Referrer-Policy", "same-origin") // the address contains the token
	name, value := p.cookie()
	http.SetCookie(w, &http.Cookie{Name: name, Value: value, Path: "/", HttpOnly: true,
		Secure: overTLS(r), SameSite: http.SameSiteStrictMode})
}

// ProtectDecision returns a handler that calls next if the client may end streams, disconnect
// viewers and stop the server. Otherwise the returned handler refuses the request.
func (g *Gate) ProtectDecision(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := g.Policy().checkDecision(r); err != nil {
			g.refusals.Refuse(Reader, w, r, err)
			return
		}
		next(w, r)
	}
}
