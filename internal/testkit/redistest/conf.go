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

// memory limits the memory for values in one server. Above this limit the server answers OOM
// instead of exhausting the machine.
const memory = "1gb"

// dataLines is the configuration of a server that holds data.
var dataLines = []string{
	`save ""`,
	"maxmemory " + memory,
	"maxclients 500", // the default reserves memory for 10000
	// The server's periodic work, such as detecting a replica, is done without delay.
	"hz 100",
	"enable-debug-command local", // for tests that use DEBUG SLEEP, DEBUG JMAP and the like
	"repl-diskless-sync-delay 0", // do not wait for a second replica
	"repl-ping-replica-period 1",
}

// nodeTimeout is the time, in milliseconds, after which a silent node is suspected to be down. With
// a shorter time, a busy machine would suspect live nodes.
const nodeTimeout = 1000

// clusterLines is the configuration of a node.
var clusterLines = []string{
	"cluster-enabled yes",
	fmt.Sprint("cluster-node-timeout ", nodeTimeout),
	// A replica is a candidate even if it was disconnected for a long time.
	"cluster-replica-validity-factor 0",
	// A replica stays with its master, and a master without slots remains a master.
	"cluster-allow-replica-migration no",
}

// An Option configures the server that [Start] starts.
type Option func(*config)

// config is the result of the options.
type config struct {
	password string
	lines    []string // lines for redis.conf, after this package's lines; the last line applies
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

// Password sets requirepass. [Server.Endpoint] returns it.
func Password(password string) Option {
	return func(c *config) { c.password = password }
}

// TLS makes the server accept only TLS on its port. [Server.Endpoint] trusts its certificate.
func TLS() Option {
	return func(c *config) { c.tls = true }
}

// UnixSocket makes the server listen on a Unix socket and not on a port.
func UnixSocket() Option {
	return func(c *config) { c.unix = true }
}

// Config adds lines to redis.conf. They come last, so they override this package's lines.
func Config(lines ...string) Option {
	return func(c *config) { c.lines = append(c.lines, lines...) }
}

// certificate returns the certificate of net/http/httptest, for 127.0.0.1. No other client trusts
// it.
var certificate = sync.OnceValue(func() tls.Certificate {
	srv := httptest.NewTLSServer(nil)
	defer srv.Close()
	return srv.TLS.Certificates[0]
})

// writeCertificate writes a server's certificate to dir and returns the lines of redis.conf that
// refer to it.
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
