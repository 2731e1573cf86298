// Package acme gets TLS certificates from an authority such as Let's Encrypt (RFC 8555).
//
// A [Certificates] requests the certificates when the server starts, and renews them before they
// expire. Handshakes never wait for the authority, and never cause a request to it, because
// authorities limit the number of requests.
package acme

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/acme"
	"golang.org/x/crypto/acme/autocert"
	"golang.org/x/net/idna"

	"github.com/millrace-io/millrace/internal/sleep"
)

// LetsEncrypt is the URL of the default authority.
const LetsEncrypt = autocert.DefaultACMEDirectory

const (
	// firstPause is the pause after the authority has refused a certificate. The pause is four
	// times as long after each further refusal, up to mostPause, and up to a quarter longer, so
	// that several nodes do not ask at once. Let's Encrypt allows five refusals an hour. autocert
	// forgets a refusal after a minute.
	firstPause = 2 * time.Minute
	mostPause  = time.Hour
	// cachePause is the pause after the Cache has failed.
	cachePause = time.Second
	// lookEvery is the time between two checks of a certificate's age.
	lookEvery = 12 * time.Hour
)

// Config configures Certificates.
type Config struct {
	Hosts []string       // see ParseHosts
	URL   string         // the directory of the authority; "": LetsEncrypt
	Email string         // for messages from the authority; may be ""
	TLS   *tls.Config    // for connections to the authority; nil trusts the system's authorities
	Cache autocert.Cache // keeps the certificates, their keys and the key of the account
	Log   *slog.Logger
}

// ParseHosts parses a comma-separated list of host names.
func ParseHosts(list string) (hosts []string, err error) {
	for name := range strings.SplitSeq(list, ",") {
		name = strings.TrimSuffix(strings.TrimSpace(name), ".")
		if name == "" {
			continue
		}
		host, err := idna.Lookup.ToASCII(name) // as browsers send it
		if _, numeric := netip.ParseAddr(name); err != nil || numeric == nil ||
			!strings.Contains(host, ".") {
			return nil, fmt.Errorf("%.80q is not a host name such as live.example.org", name)
		}
		hosts = append(hosts, host)
	}
	if len(hosts) == 0 {
		return nil, errors.New("there is no host name")
	}
	return hosts, nil
}

// Certificates are the certificates of the hosts in a Config.
type Certificates struct {
	cfg     Config
	manager *autocert.Manager
	// By host: whether there is a certificate, and a channel that is closed when the Cache has been
	// asked for it.
	ready  map[string]*atomic.Bool
	looked map[string]chan struct{}
}

// New returns the certificates of cfg. They exist after Run has got them.
func New(cfg Config) *Certificates {
	c := &Certificates{cfg: cfg, ready: make(map[string]*atomic.Bool),
		looked: make(map[string]chan struct{})}
	for _, host := range cfg.Hosts {
		c.ready[host], c.looked[host] = new(atomic.Bool), make(chan struct{})
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = cfg.TLS
	c.manager = &autocert.Manager{
		Prompt: autocert.AcceptTOS, Cache: cache{cfg}, Email: cfg.Email,
		HostPolicy: autocert.HostWhitelist(cfg.Hosts...),
		Client: &acme.Client{DirectoryURL: cfg.URL,
			HTTPClient: &http.Client{Transport: transport, Timeout: time.Minute}},
	}
	return c
}

// Run gets a certificate for each host, tries again after failures, and logs when a certificate is
// not renewed in time. It returns when ctx ends. An attempt may continue for some time after that.
func (c *Certificates) Run(ctx context.Context) {
	var hosts sync.WaitGroup
	for _, host := range c.cfg.Hosts {
		hosts.Go(func() {
			if c.get(ctx, host) {
				c.watch(ctx, host)
			}
		})
	}
	hosts.Wait()
}

// AwaitCached waits until Run has looked for all hosts in the Cache, or until ctx ends. After that,
// the hosts in the Cache can be served.
func (c *Certificates) AwaitCached(ctx context.Context) {
	for _, looked := range c.looked {
		select {
		case <-looked:
		case <-ctx.Done():
			return
		}
	}
}

// get gets the first certificate of a host. It returns false if ctx ends.
func (c *Certificates) get(ctx context.Context, host string) bool {
	looked := sync.OnceFunc(func() { close(c.looked[host]) })
	defer looked()
	for !c.isReadable(ctx, host) {
		if !sleep.For(ctx, cachePause) {
			return false
		}
	}
	for pause := firstPause; ; pause = min(4*pause, mostPause) {
		if _, err := c.cfg.Cache.Get(ctx, host); err != nil {
			looked() // the authority may take long
		}
		cert, err := c.manager.GetCertificate(hello(host))
		if err == nil {
			c.ready[host].Store(true)
			c.cfg.Log.Info("the certificate is there", "host", host, "until", cert.Leaf.NotAfter)
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		wait := pause + rand.N(pause/4)
		c.cfg.Log.Error("there is no certificate, so nobody can connect to this host: the authority "+
			"must reach port 443 of it, or port 80 with --http-redirect", "host", host,
			"authority", c.manager.Client.DirectoryURL, "reason", err,
			"again in", wait.Round(time.Second))
		if !sleep.For(ctx, wait) {
			return false
		}
	}
}

// isReadable reports whether the Cache answers. It logs an error.
func (c *Certificates) isReadable(ctx context.Context, host string) bool {
	_, err := c.cfg.Cache.Get(ctx, host)
	if err == nil || err == autocert.ErrCacheMiss {
		return true
	}
	if ctx.Err() == nil {
		c.cfg.Log.Error("the certificates cannot be read (--acme-cache)", "host", host, "reason", err)
	}
	return false
}

// watch logs when the certificate of a host is not renewed in time.
func (c *Certificates) watch(ctx context.Context, host string) {
	for sleep.For(ctx, lookEvery) {
		cert, err := c.manager.GetCertificate(hello(host))
		if err == nil && isOverdue(cert.Leaf, time.Now()) {
			c.cfg.Log.Error("the certificate is not renewed: the authority refuses, or cannot reach "+
				"this server", "host", host, "until", cert.Leaf.NotAfter)
		}
	}
}

// isOverdue reports whether less than a quarter of a certificate's time, or of 90 days, is left. A
// third is left when autocert begins to renew it.
func isOverdue(leaf *x509.Certificate, now time.Time) bool {
	lifetime := min(leaf.NotAfter.Sub(leaf.NotBefore), 90*24*time.Hour)
	return leaf.NotAfter.Sub(now) < lifetime/4
}

// hello returns the beginning of a handshake for which the manager uses a certificate with an ECDSA
// key. It would ask for a second certificate if some clients supported only RSA.
func hello(host string) *tls.ClientHelloInfo {
	return &tls.ClientHelloInfo{ServerName: host,
		CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256}}
}

var errNoCertificate = errors.New("there is no certificate for this host")

// TLS returns a configuration for listeners. Clients that send no host name get the certificate of
// the first host.
func (c *Certificates) TLS() *tls.Config {
	return &tls.Config{
		NextProtos: []string{acme.ALPNProto},
		GetCertificate: func(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
			if len(h.SupportedProtos) == 1 && h.SupportedProtos[0] == acme.ALPNProto {
				return c.manager.GetCertificate(h) // the authority checks the host
			}
			host := strings.ToLower(strings.TrimSuffix(h.ServerName, "."))
			if host == "" {
				host = c.cfg.Hosts[0]
			}
			if ready := c.ready[host]; ready == nil || !ready.Load() {
				return nil, errNoCertificate
			}
			return c.manager.GetCertificate(hello(host))
		},
	}
}

// Answer returns a handler that answers the authority's requests over HTTP, and passes all others
// to next.
func (c *Certificates) Answer(next http.Handler) http.Handler {
	answer := c.manager.HTTPHandler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if host, _, err := net.SplitHostPort(r.Host); err == nil &&
			strings.HasPrefix(r.URL.Path, "/.well-known/acme-challenge/") {
			r.Host = host // the manager knows hosts without a port
		}
		answer.ServeHTTP(w, r)
	})
}

// A cache hides the errors of Config.Cache from clients that ask for the answers to an authority.
type cache struct{ Config }

func (c cache) Get(ctx context.Context, name string) ([]byte, error) {
	text, err := c.Cache.Get(ctx, name)
	if strings.HasSuffix(name, "+token") || strings.HasSuffix(name, "+http-01") {
		if err != nil {
			err = autocert.ErrCacheMiss
		}
	}
	return text, err
}

func (c cache) Put(ctx context.Context, name string, data []byte) error {
	return c.Cache.Put(ctx, name, data)
}

func (c cache) Delete(ctx context.Context, name string) error { return c.Cache.Delete(ctx, name) }

// Reload does nothing: certificates are renewed when it is time.
func (c *Certificates) Reload() {}
