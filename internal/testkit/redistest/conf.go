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

// memory is all that the values of one test may take in one server. Beyond it a server answers OOM
// instead of taking the machine down.
const memory = "1gb"

// dataLines is the configuration of a server that holds data.
var dataLines = []string{
	`save ""`,
	"maxmemory " + memory,
	"maxclients 500", // the default makes room for 10000
	// The server's periodic work, such as detecting a replica, happens at once.
	"hz 100",
	"enable-debug-command local", // DEBUG SLEEP, DEBUG JMAP and the like are for tests
	"repl-diskless-sync-delay 0", // a second replica need not be waited for
	"repl-ping-replica-period 1",
}

// nodeTimeout is the number of milliseconds of silence after which a node is suspected: as little
// as a busy machine bears without taking a live one for dead.
const nodeTimeout = 1000

// clusterLines is the configuration of a node.
var clusterLines = []string{
	"cluster-enabled yes",
	fmt.Sprint("cluster-node-timeout ", nodeTimeout),
	// A replica that was out of touch for long stands for election, too.
	"cluster-replica-validity-factor 0",
	// A replica stays with its master, and a master without slots a master.
	"cluster-allow-replica-migration no",
}

// An Option changes what [Start] starts.
type Option func(*config)

// config is the result of the options.
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

// certificate returns that of net/http/httptest, for 127.0.0.1, which nothing else trusts.
var certificate = sync.OnceValue(func() tls.Certificate {
	srv := httptest.NewTLSServer(nil)
	defer srv.Close()
	return srv.TLS.Certificates[0]
})

// writeCertificate writes a server's certificate to dir and returns the lines of redis.conf that
// name it.
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
