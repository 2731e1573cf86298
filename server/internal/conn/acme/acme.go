// Package acme gets TLS certificates from an authority such as Let's Encrypt (RFC 8555).
//
// A [Certificates] asks for the certificates when the server starts, and renews them when two
// thirds of their time have passed. Handshakes never wait for the authority, and never make the
// server ask it: authorities limit how often a server may ask.
package acme

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/acme"
	"golang.org/x/crypto/acme/autocert"

	"github.com/millrace-io/millrace/internal/sleep"
)

// LetsEncrypt is the URL of the authority that is asked by default.
const LetsEncrypt = autocert.DefaultACMEDirectory

const (
	// firstPause is the pause after the first failure to get a certificate. The pause doubles after
	// each further failure, up to mostPause. Let's Encrypt allows five failures an hour.
	firstPause = time.Minute
	mostPause  = time.Hour
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
	for host := range strings.SplitSeq(list, ",") {
		host = strings.ToLower(strings.TrimSpace(host))
		switch {
		case host == "":
			continue
		case !strings.Contains(strings.Trim(host, "."), ".") || strings.ContainsAny(host, "*/: "):
			return nil, fmt.Errorf("%.80q is not a host name such as live.example.org", host)
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
	ready   map[string]*atomic.Bool // by host: whether there is a certificate
}

// New returns the certificates of cfg. They exist after Run has got them.
func New(cfg Config) *Certificates {
	c := &Certificates{cfg: cfg, ready: make(map[string]*atomic.Bool)}
	for _, host := range cfg.Hosts {
		c.ready[host] = new(atomic.Bool)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = cfg.TLS
	c.manager = &autocert.Manager{
		Prompt: autocert.AcceptTOS, Cache: cfg.Cache, Email: cfg.Email,
		HostPolicy: autocert.HostWhitelist(cfg.Hosts...),
		Client: &acme.Client{DirectoryURL: cfg.URL,
			HTTPClient: &http.Client{Transport: transport, Timeout: time.Minute}},
	}
	return c
}

// Run gets a certificate for each host, and tries again after failures, until all hosts have one or
// ctx ends. An attempt may continue for some time after ctx has ended.
func (c *Certificates) Run(ctx context.Context) {
	var hosts sync.WaitGroup
	for _, host := range c.cfg.Hosts {
		hosts.Go(func() { c.get(ctx, host) })
	}
	hosts.Wait()
}

func (c *Certificates) get(ctx context.Context, host string) {
	for pause := firstPause; ; pause = min(2*pause, mostPause) {
		cert, err := c.manager.GetCertificate(hello(host))
		if err == nil {
			c.ready[host].Store(true)
			c.cfg.Log.Info("the certificate is there", "host", host, "until", cert.Leaf.NotAfter)
			return
		}
		if ctx.Err() != nil {
			return
		}
		c.cfg.Log.Error("there is no certificate, so nobody can connect to this host: the authority "+
			"must reach port 443 of it, or port 80 with --http-redirect", "host", host,
			"authority", c.manager.Client.DirectoryURL, "reason", err, "again in", pause)
		if !sleep.For(ctx, pause) {
			return
		}
	}
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

// Reload does nothing: certificates are renewed when it is time.
func (c *Certificates) Reload() {}
