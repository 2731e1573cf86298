package server

import (
	"errors"
	"math"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"

	"github.com/millrace-io/millrace/internal/address"
	"github.com/millrace-io/millrace/internal/proxy"
	"github.com/millrace-io/millrace/internal/relay"
)

// addressLimits returns the limits of an address.
func (c *Config) addressLimits() address.Limits {
	return address.Limits{Connections: c.MaxAddressConnections, Viewers: c.MaxAddressViewers, Bytes: c.MaxAddressBytes}
}

// setAddresses takes over who is trusted and what an address may have. cfg was checked.
func (s *Server) setAddresses(cfg *Config) {
	trusted, _ := proxy.ParseTrusted(cfg.TrustedProxies)
	s.trusted.Store(&trusted)
	s.addresses.SetLimits(cfg.addressLimits())
}

// behindProxies returns ln for connections that may come through proxies. It takes ownership of ln.
func (s *Server) behindProxies(ln net.Listener, main bool) net.Listener {
	cfg := proxy.Config{Trusted: &s.trusted, Timeout: s.cfg.HeaderTimeout, Addresses: s.addresses}
	if main { // net/http closes what is wrong without a word, and ends what waits
		cfg.Refused = s.refusedHeader
	} else {
		cfg.Ends = s.draining
	}
	return proxy.Listen(ln, cfg)
}

// refusedHeader notes a connection of the main listener that is closed because of its PROXY header.
func (s *Server) refusedHeader(peer net.Addr, why *proxy.HeaderError) {
	s.refusals.note(clientReader, &relay.Refusal{Cause: causeProxy, Reason: why.Error()}, "client", peer.String())
}

// requestConn returns the connection of a request, or nil.
func requestConn(r *http.Request) *proxy.Conn {
	c, _ := r.Context().Value(connKey{}).(net.Conn)
	return proxy.Of(c)
}

// nameClients gives each request the address of its client, and takes headers off that only a trusted proxy may set.
func (s *Server) nameClients(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c := requestConn(r); c == nil || !c.Trusted() {
			delete(r.Header, "X-Forwarded-Proto")
		} else if client := s.trusted.Load().Client(r.Header); client.IsValid() {
			r.RemoteAddr = client.String()
		}
		next.ServeHTTP(w, r)
	})
}

// overTLS reports whether the client's request came over TLS, here or at a trusted proxy.
func overTLS(r *http.Request) bool {
	return r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https")
}

// limitAddresses refuses requests of addresses that have what they may have.
func (s *Server) limitAddresses(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := requestConn(r)
		if c == nil || r.URL.Path == "/healthz" {
			next.ServeHTTP(w, r)
			return
		}
		err := c.Above()
		if c.Trusted() { // its requests count, and not its connections
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
			s.refuseAddress(w, r, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// proxied returns the account of the client of a trusted proxy, which the caller releases.
func (s *Server) proxied(r *http.Request) (*address.Account, error) {
	client, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || s.trusted.Load().Has(client.Addr()) { // the proxy asks for itself
		return nil, nil
	}
	return s.addresses.Acquire(client.Addr())
}

// takesBytes reports whether what is at path is counted for --max-address-bytes.
func takesBytes(path string) bool {
	return strings.HasPrefix(path, "/live/") || strings.HasPrefix(path, filesPath) || strings.HasPrefix(path, blobsPath)
}

// refuseAddress answers 429 with the limit that an address has reached.
func (s *Server) refuseAddress(w http.ResponseWriter, r *http.Request, why error) {
	err := addressRefusal(why)
	client := wanted(r)
	if client == clientReader && strings.HasPrefix(r.URL.Path, "/live/") {
		client = clientViewer
		s.origins.Load().allow(w.Header(), r) // without it a player on another site cannot see the status
	}
	s.refused(client, r, err)
	w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(err.RetryAfter.Seconds()))))
	if requestConn(r).Above() != nil { // all its requests are refused: over HTTP/2, too, the client needs another connection
		w.Header().Set("Connection", "close")
	}
	refuseBody(w, r, err.Status, err.Reason)
}

// addressRefusal returns the refusal of a client whose address has what it may have.
func addressRefusal(why error) *relay.Refusal {
	refused := &relay.Refusal{Status: http.StatusTooManyRequests, Cause: causeAddress, Reason: why.Error()}
	if limit, ok := errors.AsType[*address.Refusal](why); ok {
		refused.RetryAfter = limit.After
	}
	return refused
}

// admitViewer admits a new viewer of an address, or returns a [relay.Refusal].
func admitViewer(a *address.Account) error {
	if err := a.Viewer(); err != nil {
		return addressRefusal(err)
	}
	return nil
}

// admitAddress is limitAddresses and admitViewer for a connection of RTMP.
func admitAddress(conn net.Conn, publish bool) error {
	c := proxy.Of(conn)
	if c == nil {
		return nil
	}
	if err := c.Above(); err != nil {
		return addressRefusal(err)
	}
	if publish {
		return nil
	}
	return admitViewer(c.Account())
}
