package redistest

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// memory is all that the values of one test may take in one server. Beyond it a server answers OOM instead of taking
// the machine down.
const memory = "1gb"

// dataLines is the configuration of a server that holds data.
var dataLines = []string{
	`save ""`,
	"maxmemory " + memory,
	"maxclients 500",             // the default makes room for 10000
	"hz 100",                     // what a server does now and then, such as to see that a replica is there, it does at once
	"enable-debug-command local", // DEBUG SLEEP, DEBUG JMAP and the like are for tests
	"repl-diskless-sync-delay 0", // a second replica need not be waited for
	"repl-ping-replica-period 1",
}

// An Option changes what [Start] starts.
type Option func(*config)

// config is what the options say.
type config struct {
	password string
	lines    []string // of redis.conf, behind our own: the last one counts
	tls      bool
	unix     bool
	cluster  bool
	sentinel bool
}

func configure(opts []Option) (c config) {
	for _, opt := range opts {
		opt(&c)
	}
	return c
}

// Password sets requirepass. [Server.Endpoint] holds it.
func Password(password string) Option {
	return func(c *config) { c.password = password }
}

// TLS has the server speak nothing else on its port. [Server.Endpoint] trusts its certificate.
func TLS() Option {
	return func(c *config) { c.tls = true }
}

// UnixSocket has the server listen on a Unix socket instead of a port.
func UnixSocket() Option {
	return func(c *config) { c.unix = true }
}

// Config adds lines to redis.conf. They come last and win over ours.
func Config(lines ...string) Option {
	return func(c *config) { c.lines = append(c.lines, lines...) }
}

func (s *Server) confPath() string { return filepath.Join(s.dir, "redis.conf") }

// configure writes redis.conf, which a sentinel rewrites as it goes.
func (s *Server) configure() error {
	lines := []string{"bind " + host, "dir " + s.dir}
	switch {
	case s.conf.unix:
		lines = append(lines, "port 0", "unixsocket "+s.Addr())
	case s.conf.tls:
		names, err := writeCertificate(s.dir)
		if err != nil {
			return err
		}
		lines = append(lines, names...)
		lines = append(lines, "port 0", fmt.Sprint("tls-port ", s.port), "tls-auth-clients no")
	default:
		lines = append(lines, fmt.Sprint("port ", s.port))
	}
	if !s.conf.sentinel {
		lines = append(lines, dataLines...)
	}
	if s.conf.cluster {
		lines = append(lines, clusterLines...)
		lines = append(lines, fmt.Sprint("cluster-port ", s.bus))
	}
	if p := s.conf.password; p != "" {
		lines = append(lines, "requirepass "+p)
	}
	lines = append(lines, s.conf.lines...)
	return os.WriteFile(s.confPath(), []byte(strings.Join(lines, "\n")+"\n"), 0o600)
}

// certificate returns that of net/http/httptest, for 127.0.0.1, which nothing else trusts.
var certificate = sync.OnceValue(func() tls.Certificate {
	srv := httptest.NewTLSServer(nil)
	defer srv.Close()
	return srv.TLS.Certificates[0]
})

// writeCertificate writes what a server needs to dir and returns the lines of redis.conf that name it.
func writeCertificate(dir string) (lines []string, err error) {
	key, err := x509.MarshalPKCS8PrivateKey(certificate().PrivateKey)
	if err != nil {
		return nil, err
	}
	for directive, block := range map[string]*pem.Block{
		"tls-cert-file": {Type: "CERTIFICATE", Bytes: certificate().Certificate[0]},
		"tls-key-file":  {Type: "PRIVATE KEY", Bytes: key},
	} {
		path := filepath.Join(dir, directive)
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			return nil, err
		}
		lines = append(lines, directive+" "+path)
	}
	return lines, nil
}

// tlsConfig returns a new configuration for a client that trusts the server; nil if the server does not speak TLS. The
// server's name is set, so that it fits a [Proxy]'s address as well.
func (s *Server) tlsConfig() *tls.Config {
	if !s.conf.tls {
		return nil
	}
	leaf, err := x509.ParseCertificate(certificate().Certificate[0])
	if err != nil {
		panic(err) // net/http/httptest has made it
	}
	roots := x509.NewCertPool()
	roots.AddCert(leaf)
	return &tls.Config{RootCAs: roots, ServerName: leaf.DNSNames[0]}
}
