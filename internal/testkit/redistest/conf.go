package redistest

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
)

// memory is the maximum memory for the values of one server. Above it, the server answers OOM
// instead of exhausting the machine.
const memory = "1gb"

var dataLines = []string{
	`save ""`,
	"maxmemory " + memory,
	"maxclients 500", // the default reserves memory for 10000
	// Do periodic work, such as detecting a replica, without delay.
	"hz 100",
	"enable-debug-command local", // for tests that use DEBUG SLEEP, DEBUG JMAP and the like
	"repl-diskless-sync-delay 0", // do not wait for a second replica
	"repl-ping-replica-period 1",
}

// nodeTimeout is the time, in milliseconds, after which a silent node is suspected to be down. With
// a shorter time, live nodes of a busy machine would be suspected.
const nodeTimeout = 1000

var clusterLines = []string{
	"cluster-enabled yes",
	fmt.Sprint("cluster-node-timeout ", nodeTimeout),
	// A replica may become the master even after a long disconnection.
	"cluster-replica-validity-factor 0",
	// Replicas do not change their master, and a master without slots stays a master.
	"cluster-allow-replica-migration no",
}

// An Option configures the server that [Start] starts.
type Option func(*config)

type config struct {
	password string
	lines    []string // more lines for redis.conf, which override earlier lines
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

// Password makes the server require a password (requirepass).
func Password(password string) Option {
	return func(c *config) { c.password = password }
}

// TLS makes the server accept only TLS on its port. The tls.Config in [Server.Endpoint] trusts the
// server's certificate.
func TLS() Option {
	return func(c *config) { c.tls = true }
}

// UnixSocket makes the server listen on a Unix socket instead of a port.
func UnixSocket() Option {
	return func(c *config) { c.unix = true }
}

// Config adds lines to redis.conf, which override the lines of this package.
func Config(lines ...string) Option {
	return func(c *config) { c.lines = append(c.lines, lines...) }
}

// certificate returns the certificate of net/http/httptest, for 127.0.0.1.
var certificate = sync.OnceValue(func() tls.Certificate {
	srv := httptest.NewTLSServer(nil)
	defer srv.Close()
	return srv.TLS.Certificates[0]
})

// writeCertificate writes the certificate and its key to files in dir. It returns the lines for
// redis.conf that name the files.
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
