// Package redistest starts real Redis servers for tests, and injects faults between a server and
// its clients.
//
//   - [Start] starts one server, with a password, TLS, a Unix socket or lines of redis.conf.
//     [Shared] returns one server for all tests of a package.
//   - [StartCluster] starts a cluster of masters and replicas. Tests can move its slots and kill
//     its masters. [SharedCluster] returns a cluster that tests must not change.
//   - [StartSentinel] starts a master, a replica and a sentinel. The sentinel can swap the roles of
//     the master and the replica.
//   - [Server.Proxy] returns a proxy that can cut or delay a connection, or insert bytes into it,
//     after a certain number of bytes.
//   - [StartHostile] starts a fake server that sends scripted bytes.
//
// All servers listen on the loopback interface only, store nothing on disk, and are stopped when
// their test ends. The processes end even if the test binary is killed. If neither redis-server nor
// valkey-server is installed, the test is skipped, or fails on CI.
//
// A third of the code starts clusters and injects faults: cluster.go and proxy.go.
package redistest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/testkit/need"
	"github.com/millrace-io/millrace/internal/testkit/nettest"
)

// Server is a running server. Its methods may be called from several goroutines, except Kill and
// Restart.
type Server struct {
	process
	path string // path of the program
	dir  string // the server's directory; removed if the server is shared
	conf config
	port int    // 0 if the server uses a Unix socket
	bus  int    // port for the connections between nodes of a cluster
	id   string // id of the node in a cluster
}

// Start starts a server that is stopped when the test ends. If the test fails, the test log shows
// the end of the server's log.
func Start(t testing.TB, opts ...Option) *Server {
	t.Helper()
	return start(t, configure(opts))
}

func start(t testing.TB, c config) *Server {
	t.Helper()
	s := newServer(t, nettest.PlainDir(t), c)
	t.Cleanup(func() { s.out.Close() })
	s.logOnFailure(t)
	t.Cleanup(s.stop)
	return s
}

func newServer(t testing.TB, dir string, c config) *Server {
	t.Helper()
	s := &Server{path: need.Program(t, "redis-server", "valkey-server"), dir: dir, conf: c}
	if err := s.open(dir); err != nil {
		t.Fatal(err)
	}
	err := errGaveUp
	for range startTries {
		if errors.Is(err, errGaveUp) {
			s.port, s.bus = nettest.FreePort(t), nettest.FreePort(t)
			if err = s.configure(); err == nil {
				err = s.launch()
			}
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

const startTries = 5

// errGaveUp reports that a server will never answer, perhaps because another program has taken its
// port.
var errGaveUp = errors.New("it gave up")

func (s *Server) confPath() string { return filepath.Join(s.dir, "redis.conf") }

// configure writes redis.conf. A sentinel rewrites the file while it runs.
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

func (s *Server) launch() error {
	args := []string{s.confPath()}
	if s.conf.sentinel {
		args = append(args, "--sentinel")
	}
	if err := s.run(s.path, args...); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	err := poll(ctx, s.answers)
	if err != nil {
		if errors.Is(err, errGaveUp) {
			s.end(0) // signal 0 does nothing: the server may be about to log the reason
		} else {
			s.Kill()
		}
		err = fmt.Errorf("redistest: %s does not answer: %w\n%s", s, err, s.output(s.begun))
	}
	return err
}

// answers returns nil if this server, and not another program, answers at its address.
func (s *Server) answers(ctx context.Context) error {
	log := s.output(s.begun)
	for _, words := range []string{"Address already in use", "FATAL CONFIG FILE ERROR", "Failed "} {
		if strings.Contains(log, words) {
			return errGaveUp
		}
	}
	info, err := s.fields(ctx, "INFO", "server")
	if err != nil {
		return err
	}
	if got := info["process_id"]; got != strconv.Itoa(s.pid()) {
		return fmt.Errorf("%w: process %s answers", errGaveUp, got)
	}
	return nil
}

// Restart starts a server again after Kill, with the same address and without data.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.stop()
	if err := s.launch(); err != nil {
		t.Fatal(err)
	}
}

// Pause suspends the server. Its connections stay open, but it does not answer until Resume.
func (s *Server) Pause(t testing.TB) {
	t.Helper()
	if err := s.signal(pauseSignal); err != nil {
		t.Fatal(err)
	}
}

// Resume lets the server continue after Pause.
func (s *Server) Resume(t testing.TB) {
	t.Helper()
	if err := s.signal(resumeSignal); err != nil {
		t.Fatal(err)
	}
}

func (s *Server) network() string {
	if s.conf.unix {
		return "unix"
	}
	return "tcp"
}

// Addr returns the server's address: host:port, or the path of the Unix socket.
func (s *Server) Addr() string {
	if s.conf.unix {
		return filepath.Join(s.dir, "socket")
	}
	return net.JoinHostPort(host, strconv.Itoa(s.port))
}

// Proxy starts a proxy for the server on another port. The proxy is closed when the test ends.
func (s *Server) Proxy(t testing.TB) *Proxy {
	t.Helper()
	p := &Proxy{server: s.Endpoint(), released: make(chan struct{})}
	p.start(t, p.connect)
	return p
}

// Endpoint returns the server's Endpoint. The caller may change the TLS configuration.
func (s *Server) Endpoint() Endpoint {
	return Endpoint{Network: s.network(), Addr: s.Addr(), Password: s.conf.password,
		TLS: s.tlsConfig()}
}

// Do sends a command on a new connection and returns the reply: a string, an int64, nil, or a []any
// of these. An error fails the test.
func (s *Server) Do(t testing.TB, args ...any) any {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	v, err := s.do(ctx, args...)
	if err != nil {
		t.Fatalf("%s: %v: %v", s, args, err)
	}
	return v
}

func (s *Server) do(ctx context.Context, args ...any) (any, error) {
	c, err := s.Endpoint().dial(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.do(ctx, args...)
}

// fields returns the "name:value" lines of the reply to a command such as INFO.
func (s *Server) fields(ctx context.Context, args ...any) (map[string]string, error) {
	reply, err := s.do(ctx, args...)
	if err != nil {
		return nil, err
	}
	m := make(map[string]string)
	for line := range strings.Lines(fmt.Sprint(reply)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			m[name] = value
		}
	}
	return m, nil
}

func (s *Server) awaitSync(t testing.TB) {
	t.Helper()
	await(t, fmt.Sprintf("%s to be in step with its master", s), func(ctx context.Context) error {
		info, err := s.fields(ctx, "INFO", "replication")
		if err == nil && (info["role"] != "slave" || info["master_link_status"] != "up") {
			err = fmt.Errorf("role %s, link %s", info["role"], info["master_link_status"])
		}
		return err
	})
}

func (s *Server) String() string { return filepath.Base(s.path) + " at " + s.Addr() }

// logOnFailure makes a failing test log the output that the server writes after this call.
func (s *Server) logOnFailure(t testing.TB) {
	offset := s.written()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the log of %s:\n%s", s, s.output(offset))
		}
	})
}

var shared struct {
	sync.Mutex
	server  *Server
	cluster *Cluster
}

// Shared returns a server that all tests of a package share. The first call starts the server. The
// server ends when the test binary ends. The server uses no goroutine and no open file of the test
// binary, so [leaktest.Main] does not report it as a leak.
//
// Tests must use different keys, and must not change the server's configuration. If a test fails,
// the test log shows the server's output since the test called Shared.
//
// [leaktest.Main]: github.com/millrace-io/millrace/internal/testkit/leaktest.Main
func Shared(t testing.TB) *Server {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.server == nil {
		dir, err := nettest.MkdirPlain()
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir) // the server has read its configuration and writes no files
		shared.server = newServer(t, dir, config{})
	}
	shared.server.logOnFailure(t)
	return shared.server
}

const timeout = 30 * time.Second

// poll calls f until f returns nil or errGaveUp, or ctx ends. It returns the last result.
func poll(ctx context.Context, f func(ctx context.Context) error) error {
	for pause := time.Millisecond; ; pause = min(2*pause, 20*time.Millisecond) {
		err := f(ctx)
		if err == nil || errors.Is(err, errGaveUp) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}

func await(t testing.TB, what string, f func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	if err := poll(ctx, f); err != nil {
		t.Fatalf("redistest: waited %v for %s: %v", timeout, what, err)
	}
}

// tlsConfig returns a new configuration for a client that trusts the server, or nil if the server
// does not use TLS. The configuration has a ServerName, so that it is also valid for the address of
// a [Proxy].
func (s *Server) tlsConfig() *tls.Config {
	if !s.conf.tls {
		return nil
	}
	leaf, err := x509.ParseCertificate(certificate().Certificate[0])
	if err != nil {
		panic(err) // cannot happen, because net/http/httptest has parsed the certificate
	}
	roots := x509.NewCertPool()
	roots.AddCert(leaf)
	return &tls.Config{RootCAs: roots, ServerName: leaf.DNSNames[0]}
}
