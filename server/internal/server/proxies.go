package server

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace/server/internal/access"
	"github.com/millrace-io/millrace/server/internal/conn/address"
	"github.com/millrace-io/millrace/server/internal/conn/proxy"
)

// addressLimits returns the limits for each client address.
func (c *Config) addressLimits() address.Limits {
	return address.Limits{Connections: c.MaxAddressConnections, Viewers: c.MaxAddressViewers,
		Bytes: c.MaxAddressBytes}
}

// clients determines the addresses of the clients of all listeners, and applies the limits of each
// address.
type clients struct {
	trusted   atomic.Pointer[proxy.Trusted]
	addresses *address.Table
	refusals  *access.Refusals

	headerTimeout time.Duration
	draining      context.Context // its end closes connections without a request
}

// newClients returns the clients for cfg. cfg was checked.
func newClients(draining context.Context, cfg *Config, refusals *access.Refusals) *clients {
	s := &clients{
		addresses: address.New(cfg.addressLimits()), refusals: refusals,
		headerTimeout: cfg.HeaderTimeout, draining: draining,
	}
	s.setLimits(cfg)
	return s
}

// setLimits sets the trusted proxies and the limits of each address. cfg was checked.
func (s *clients) setLimits(cfg *Config) {
	trusted, _ := proxy.ParseTrusted(cfg.TrustedProxies)
	s.trusted.Store(&trusted)
	s.addresses.SetLimits(cfg.addressLimits())
}

// behindProxies returns a listener that accepts the connections of ln, which may come through
// proxies. It takes ownership of ln.
func (s *clients) behindProxies(ln net.Listener, main bool) net.Listener {
	cfg := proxy.Config{Trusted: &s.trusted, Timeout: s.headerTimeout, Addresses: s.addresses}
	if main { // net/http logs no faulty connections, and closes idle ones at shutdown
		cfg.Refused = func(peer net.Addr, why error) {
			s.refusals.Note(access.Reader, why, "client", peer.String())
		}
	} else {
		cfg.Ends = s.draining
	}
	return proxy.Listen(ln, cfg)
}

// withClientAddr sets the RemoteAddr of requests through a trusted proxy to the address of the
// client. From all other requests, it removes the headers that only a trusted proxy may set.
func (s *clients) withClientAddr(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c := requestConn(r); c == nil || !c.Trusted() {
			delete(r.Header, "X-Forwarded-Proto")
		} else if client := s.trusted.Load().Client(r.Header); client.IsValid() {
			r.RemoteAddr = client.String()
		}
		next.ServeHTTP(w, r)
	})
}

// withAddressLimits refuses the requests of addresses that have reached their limits.
func (s *clients) withAddressLimits(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := requestConn(r)
		if c == nil {
			next.ServeHTTP(w, r)
			return
		}
		err := c.Above()
		if c.Trusted() { // the proxy's connection does not count, but each client's request does
			var account *address.Account
			if account, err = s.proxied(r); account != nil {
				r = r.WithContext(address.NewContext(r.Context(), account))
				defer func() {
					if c.Hijacked.Load() {
						c.Keep(account)
					} else {
						account.Release()
					}
				}()
			}
		}
		if err == nil && r.Method == http.MethodGet && takesBytes(r.URL.Path) {
			err = address.Of(r.Context()).Check()
		}
		if err != nil {
			// All requests of the connection are refused. Over HTTP/2, too, the client must open
			// another connection.
			if c.Above() != nil {
				w.Header().Set("Connection", "close")
			}
			s.refusals.Refuse(access.KindOf(r), w, r, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// proxied returns the account of the client for which a trusted proxy sends the request. The caller
// must release it. If there is no such client, the account is nil.
func (s *clients) proxied(r *http.Request) (*address.Account, error) {
	client, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || s.trusted.Load().Has(client.Addr()) { // the request is the proxy's own
		return nil, nil
	}
	return s.addresses.Acquire(client.Addr())
}
