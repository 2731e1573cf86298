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

func (c *Config) addressLimits() address.Limits {
	return address.Limits{Connections: c.MaxAddressConnections, Viewers: c.MaxAddressViewers,
		Bytes: c.MaxAddressBytes}
}

// clients determines the addresses of clients, and applies the limits per address.
type clients struct {
	trusted   atomic.Pointer[proxy.Trusted]
	addresses *address.Table
	refusals  *access.Refusals

	headerTimeout time.Duration
	draining      context.Context // when it ends, RTMP connections stop waiting for a PROXY header
}

// newClients returns clients with the trusted proxies and the limits of cfg. The caller must have
// checked cfg. When ctx ends, RTMP connections stop waiting for a PROXY header.
func newClients(ctx context.Context, cfg *Config, refusals *access.Refusals) *clients {
	s := &clients{
		addresses: address.New(cfg.addressLimits()), refusals: refusals,
		headerTimeout: cfg.HeaderTimeout, draining: ctx,
	}
	s.setLimits(cfg)
	return s
}

// setLimits sets the trusted proxies and the limits per address. The caller must have checked cfg.
func (s *clients) setLimits(cfg *Config) {
	trusted, _ := proxy.ParseTrusted(cfg.TrustedProxies)
	s.trusted.Store(&trusted)
	s.addresses.SetLimits(cfg.addressLimits())
}

// behindProxies returns a listener for the connections that ln accepts, which may come through
// proxies. It takes ownership of ln. The argument isMain is true for the main listener.
func (s *clients) behindProxies(ln net.Listener, isMain bool) net.Listener {
	cfg := proxy.Config{Trusted: &s.trusted, Timeout: s.headerTimeout, Addresses: s.addresses}
	if isMain { // net/http does not log faulty connections, but closes idle ones at shutdown
		cfg.Refused = func(peer net.Addr, why error) {
			s.refusals.Note(access.Reader, why, "client", peer.String())
		}
	} else {
		cfg.Ends = s.draining
	}
	return proxy.Listen(ln, cfg)
}

// withClientAddr sets the RemoteAddr of requests from trusted proxies to the client's address. It
// removes X-Forwarded-Proto from all other requests, because only a trusted proxy may set it.
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

// withAddressLimits refuses a request if the client's address has reached one of its limits.
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
			if account, err = s.clientAccount(r); account != nil {
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
			// The connection exceeds the limit for the client's address, so all its requests are
			// refused. With the header Connection: close, net/http closes the connection after the
			// response, also over HTTP/2. The client then opens a new connection.
			if c.Above() != nil {
				w.Header().Set("Connection", "close")
			}
			s.refusals.Refuse(access.KindOf(r), w, r, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// clientAccount returns the Account that limits the client of a request from a trusted proxy. The
// caller must release the Account. The Account is nil if the client has no limits, or if the proxy
// sends the request for itself and not for a client. If the client has too many connections or
// requests, the error is a [refuse.Refusal].
func (s *clients) clientAccount(r *http.Request) (*address.Account, error) {
	client, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || s.trusted.Load().Has(client.Addr()) { // the request is the proxy's own
		return nil, nil
	}
	return s.addresses.Acquire(client.Addr())
}
