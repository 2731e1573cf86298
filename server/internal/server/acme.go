package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/crypto/acme/autocert"

	"github.com/millrace-io/millrace/server/internal/access"
	"github.com/millrace-io/millrace/server/internal/conn/acme"
	"github.com/millrace-io/millrace/server/internal/live/cluster"
	"github.com/millrace-io/millrace/server/internal/refuse"
)

// certificates are the TLS certificates of a server: [certificate] or [acmeCertificates].
type certificates interface {
	TLS() *tls.Config
	Reload()
}

// openCertificates returns the certificates that cfg names, or nil if it names none.
func openCertificates(cfg *Config) (certificates, error) {
	switch {
	case cfg.ACME != "":
		return openACME(cfg)
	case cfg.TLSCert != "":
		return openCertificate(cfg, cfg.Log)
	}
	return nil, nil
}

// acmeCertificates are certificates from an authority.
type acmeCertificates struct {
	*acme.Certificates
	cache io.Closer // nil if the certificates are in a directory
}

// inRedis is the value of --acme-cache for the Redis of the cluster.
const inRedis = "redis"

func openACME(cfg *Config) (*acmeCertificates, error) {
	hosts, err := acme.ParseHosts(cfg.ACME)
	if err != nil {
		return nil, fmt.Errorf("--acme: %w", err)
	}
	trust, err := loadCA(cfg.ACMECA)
	if err != nil {
		return nil, fmt.Errorf("--acme-ca: %w", err)
	}
	c := &acmeCertificates{}
	var cache autocert.Cache = autocert.DirCache(cfg.ACMECache)
	if cfg.ACMECache == inRedis {
		shared, err := cluster.OpenCertificates(cfg.clusterRedis(), cfg.ClusterToken)
		if err != nil {
			return nil, fmt.Errorf("--acme-cache: %w", err)
		}
		cache, c.cache = shared, shared
	}
	c.Certificates = acme.New(acme.Config{Hosts: hosts, URL: cfg.ACMEURL, Email: cfg.ACMEEmail,
		TLS: trust, Cache: cache, Log: cfg.Log})
	return c, nil
}

func (c *Config) hasTLS() bool { return c.TLSCert != "" || c.ACME != "" }

func (c *Config) checkTLS() error {
	switch {
	case (c.TLSCert == "") != (c.TLSKey == ""):
		return errors.New("--tls-cert and --tls-key are needed together")
	case c.TLSCert != "" && c.ACME != "":
		return errors.New("--tls-cert and --acme are two ways to a certificate: want one of them")
	case c.RTMPS != "" && !c.hasTLS():
		return errors.New("--rtmps needs --tls-cert and --tls-key, or --acme")
	case c.HTTPRedirect != "" && !c.hasTLS():
		return errors.New("--http-redirect needs --tls-cert and --tls-key, or --acme")
	case c.ACME == "":
		return nil
	case c.ACMECache == "":
		return errors.New("--acme needs --acme-cache: a directory for the certificates, so that a " +
			"restart does not ask for new ones")
	case c.ACMECache == inRedis && c.Cluster == "":
		return errors.New("--acme-cache redis needs --cluster")
	}
	_, err := acme.ParseHosts(c.ACME)
	if err != nil {
		err = fmt.Errorf("--acme: %w", err)
	}
	return err
}

// cacheTime limits the time for which the server waits for the cache of --acme-cache when it
// starts.
const cacheTime = 5 * time.Second

// getCertificates begins to get the certificates of --acme, until ctx ends. It returns when those
// in the cache can be served. An attempt may continue for minutes after the end of ctx.
func (s *Server) getCertificates(ctx context.Context) {
	c, ok := s.cert.(*acmeCertificates)
	if !ok {
		return
	}
	go c.Run(ctx)
	ctx, cancel := context.WithTimeout(ctx, cacheTime)
	defer cancel()
	c.AwaitCached(ctx)
}

// closeCertificates closes the connection to the cache of --acme-cache.
func (s *Server) closeCertificates() error {
	if c, ok := s.cert.(*acmeCertificates); ok && c.cache != nil {
		return c.cache.Close()
	}
	return nil
}

// redirectRoutes returns the handler of the listener for plain HTTP. It redirects to the main
// listener, and answers /healthz and the requests of the authority of --acme.
func (s *Server) redirectRoutes(main net.Addr) http.Handler {
	port := ""
	if tcp, ok := main.(*net.TCPAddr); ok && tcp.Port != 443 {
		port = ":" + strconv.Itoa(tcp.Port)
	}
	var h http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/healthz":
			s.refusals.Only("GET, HEAD", s.health)(w, r)
			return
		case r.Host == "":
			s.refusals.Refuse(access.KindOf(r), w, r,
				refuse.New(http.StatusBadRequest, "the request names no host"))
			return
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			// The client has sent its data, and perhaps its token, without encryption.
			s.refusals.Refuse(access.KindOf(r), w, r,
				refuse.New(http.StatusForbidden, "use https: this address only redirects to it"))
			return
		}
		host := r.Host
		if h, _, err := net.SplitHostPort(host); err == nil {
			host = h
			if strings.Contains(h, ":") {
				host = "[" + h + "]"
			}
		}
		http.Redirect(w, r, "https://"+host+port+r.URL.RequestURI(), http.StatusPermanentRedirect)
	})
	if c, ok := s.cert.(*acmeCertificates); ok {
		h = c.Answer(h)
	}
	return s.clients.withClientAddr(s.clients.withAddressLimits(h))
}
