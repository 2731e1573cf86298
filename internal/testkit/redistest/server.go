// Package redistest starts real Redis servers for tests, and puts what goes wrong between them and a client.
//
//   - [Start]: one server, with a password, users, TLS, a Unix socket or a master to follow. [Shared]: one for all tests
//     of a package.
//   - [StartCluster]: masters and replicas; slots that move, masters that die. [SharedCluster]: one to leave whole.
//   - [StartSentinel]: a master, a replica and a sentinel that swaps them.
//   - [StartProxy]: a connection that is cut, delayed or added to at a given byte.
//   - [StartHostile]: no server at all, but scripted bytes.
//
// Everything listens on the loopback interface only, keeps nothing on disk, and ends with its test; the processes also
// when the test binary is killed. Where there is no redis-server (nor valkey-server) the test is skipped, or fails on CI.
// The environment variable MILLRACE_REDIS_SERVER names another program to run.
package redistest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/testkit/need"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// startTries is how many ports are tried when others are faster, one after the other.
const startTries = 5

// Server is a running server. Its methods may be called from several goroutines, except those that start and end it: Kill
// and Restart.
type Server struct {
	path string // of the program
	dir  string // ours; gone when the server is a shared one
	conf config
	port int // 0 with a Unix socket
	bus  int // the port that the nodes of a cluster talk on; 0 outside of one
	proc atomic.Pointer[process]
}

// Start starts a server that ends with the test. If the test has failed by then, the end of the server's log is shown.
func Start(t testing.TB, opts ...Option) *Server {
	t.Helper()
	return start(t, configure(opts))
}

func start(t testing.TB, c config) *Server {
	t.Helper()
	path, dir := program(t), tempDir(t)
	s, err := newServer(path, dir, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.stop()
		if t.Failed() {
			t.Logf("the log of %s:\n%s", s, s.log())
		}
		s.close()
	})
	if c.master != nil {
		s.awaitSync(t)
	}
	return s
}

// tempDir makes a directory that is removed when the test ends. The name of t.TempDir contains the test's, and can be
// longer than the path of a Unix socket may be.
func tempDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "redistest")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// newServer returns a server that answers.
func newServer(path, dir string, c config) (*Server, error) {
	s := &Server{path: path, dir: dir, conf: c}
	var err error
	for range startTries {
		if !c.unix {
			if s.port, err = freePort(); err != nil {
				return nil, err
			}
		}
		if c.cluster {
			if s.bus, err = freePort(); err != nil {
				return nil, err
			}
		}
		if err = s.configure(); err != nil {
			return nil, err
		}
		if err = s.launch(); !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// launch starts the process and returns when it answers.
func (s *Server) launch() error {
	args := []string{s.confPath()}
	if s.conf.sentinelOf != nil {
		args = append(args, "--sentinel")
	}
	proc, err := startProcess(s.dir, s.path, args...)
	if err != nil {
		return err
	}
	if old := s.proc.Swap(proc); old != nil {
		old.out.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	gaveUp := false
	err = poll(ctx, func() error {
		if err := refused(proc.output(proc.begun)); err != nil {
			gaveUp = true
			return final{err}
		}
		return s.answers(ctx, proc.pid())
	})
	if err != nil {
		if gaveUp {
			proc.wait() // it may be about to say why
		} else {
			proc.kill()
		}
		err = fmt.Errorf("redistest: %s does not answer: %w\n%s", s, err, proc.output(proc.begun))
	}
	return err
}

// refused finds in a server's log why it is not going to run.
func refused(log string) error {
	switch {
	case strings.Contains(log, "Address already in use"):
		return syscall.EADDRINUSE
	case strings.Contains(log, "FATAL CONFIG FILE ERROR"), strings.Contains(log, "Failed "):
		return errors.New("it gave up")
	}
	return nil
}

// answers asks who answers at the server's address: another program may have been faster to take the port.
func (s *Server) answers(ctx context.Context, pid int) error {
	conn, err := net.Dial(s.Network(), s.Addr()) // fails much faster than a client while the port is closed
	if err != nil {
		return err
	}
	conn.Close()
	info, err := s.info(ctx, "server")
	if err != nil {
		return err
	}
	if got := info["process_id"]; got != strconv.Itoa(pid) {
		return fmt.Errorf("%w: by process %s", syscall.EADDRINUSE, got)
	}
	return nil
}

// stop has the server shut down, and returns when it has.
func (s *Server) stop() { s.proc.Load().stop() }

// Kill ends the server as a power cut would: no good-bye, but the kernel closes its connections.
func (s *Server) Kill() { s.proc.Load().kill() }

// Restart starts a server again that Kill has ended, empty and at the same address.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.stop()
	if err := s.launch(); err != nil {
		t.Fatal(err)
	}
}

// Pause stops the server's clock: its connections stay open and nothing answers. It goes on at Resume.
func (s *Server) Pause(t testing.TB) {
	t.Helper()
	if err := s.proc.Load().signal(pauseSignal); err != nil {
		t.Fatal(err)
	}
}

// Resume ends a Pause.
func (s *Server) Resume(t testing.TB) {
	t.Helper()
	if err := s.proc.Load().signal(resumeSignal); err != nil {
		t.Fatal(err)
	}
}

// close gives back what is left of a server that has ended.
func (s *Server) close() { s.proc.Load().out.Close() }

// pid returns the number of the server's process.
func (s *Server) pid() int { return s.proc.Load().pid() }

// log returns the end of what the server has written.
func (s *Server) log() string { return s.proc.Load().output(0) }

// Network returns "tcp" or "unix".
func (s *Server) Network() string {
	if s.conf.unix {
		return "unix"
	}
	return "tcp"
}

// Addr returns host:port, or the path of the Unix socket.
func (s *Server) Addr() string {
	if s.conf.unix {
		return filepath.Join(s.dir, "socket")
	}
	return net.JoinHostPort(host, strconv.Itoa(s.port))
}

// tlsConfig returns a new configuration for a client that the server accepts; nil if the server does not speak TLS.
func (s *Server) tlsConfig() *tls.Config {
	if !s.conf.tls {
		return nil
	}
	a, err := theAuthority()
	if err != nil {
		panic(err) // the server has its certificate from it
	}
	return a.clientConfig()
}

// Options returns new options of a client of this server, all others at go-redis's defaults but one: it does not ask
// for notifications of maintenance, which only Redis Enterprise knows.
func (s *Server) Options() *redis.Options {
	return &redis.Options{
		Network:                  s.Network(),
		Addr:                     s.Addr(),
		Password:                 s.conf.password,
		TLSConfig:                s.tlsConfig(),
		MaintNotificationsConfig: noMaintenance(),
	}
}

func noMaintenance() *maintnotifications.Config {
	return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}

// Client returns a client of the server that is closed when the test ends.
func (s *Server) Client(t testing.TB) *redis.Client {
	t.Helper()
	return closing(t, redis.NewClient(s.Options()))
}

// closing closes a client when the test ends.
func closing[C interface{ Close() error }](t testing.TB, client C) C {
	t.Cleanup(func() {
		if err := client.Close(); err != nil && !errors.Is(err, redis.ErrClosed) {
			t.Error(err)
		}
	})
	return client
}

// Do sends a command on a connection of its own and returns the reply; an error fails the test.
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
	o := s.Options()
	// One attempt, and nothing told or asked beside the command. A paused server must not hold a poll for long.
	o.MaxRetries, o.PoolSize, o.DisableIdentity, o.Protocol = -1, 1, true, 2
	o.DialerRetries, o.DialTimeout, o.ReadTimeout = 1, time.Second, 5*time.Second
	client := redis.NewClient(o)
	defer client.Close()
	return client.Do(ctx, args...).Result()
}

// info returns the fields of a section of INFO.
func (s *Server) info(ctx context.Context, section string) (map[string]string, error) {
	v, err := s.do(ctx, "INFO", section)
	if err != nil {
		return nil, err
	}
	return fields(v), nil
}

// fields reads the "name:value" lines of INFO and CLUSTER INFO.
func fields(reply any) map[string]string {
	text, _ := reply.(string)
	m := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			m[name] = value
		}
	}
	return m
}

// awaitSync waits until a replica has all that its master has.
func (s *Server) awaitSync(t testing.TB) {
	t.Helper()
	await(t, fmt.Sprintf("%s to be in step with its master", s), func(ctx context.Context) error {
		info, err := s.info(ctx, "replication")
		if err != nil {
			return err
		}
		if info["role"] != "slave" || info["master_link_status"] != "up" {
			return fmt.Errorf("role %s, link %s", info["role"], info["master_link_status"])
		}
		return nil
	})
}

func (s *Server) String() string { return filepath.Base(s.path) + " at " + s.Addr() }

// shared is started by the first test that asks for it.
var shared struct {
	sync.Mutex
	server  *Server
	cluster *Cluster
}

// Shared returns the server that all tests of a package share: the first call starts it, and it dies with the test
// binary. It needs no goroutine and no file, so that [leaktest.Main] finds none, and no test has to end it.
//
// Tests use keys of their own and leave its configuration alone. If t fails, it shows what the server wrote meanwhile.
//
// [leaktest.Main]: github.com/millrace-io/millrace/internal/testkit/leaktest.Main
func Shared(t testing.TB) *Server {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.server == nil {
		path := program(t)
		dir, err := os.MkdirTemp("", "redistest")
		if err != nil {
			t.Fatal(err)
		}
		s, err := newServer(path, dir, configure(nil))
		if rmErr := os.RemoveAll(dir); err == nil {
			err = rmErr // the server has read its configuration, and will not write
		}
		if err != nil {
			t.Fatal(err)
		}
		shared.server = s
	}
	shared.server.show(t)
	return shared.server
}

// show logs what the server writes from now on if t fails.
func (s *Server) show(t testing.TB) {
	proc := s.proc.Load()
	from := proc.written()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the log of %s:\n%s", s, proc.output(from))
		}
	})
}

const host = "127.0.0.1"

// The ports to choose from lie below those that Linux (32768) and macOS (49152) give to outgoing connections: a server
// that a test kills finds its own port free when it starts again.
const (
	firstPort = 12000
	ports     = 20000
)

// portTries is more than enough: a machine whose ports are half taken fails once in 2^50.
const portTries = 50

// freePort returns a port that is free. Another process may take it before the server does, so the caller
// starts again with another when that happens.
func freePort() (int, error) {
	for range portTries {
		port := firstPort + rand.IntN(ports)
		ln, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		if err == nil {
			ln.Close()
			return port, nil
		}
	}
	return 0, fmt.Errorf("redistest: no free port in %d tries", portTries)
}

// timeout is how long anything may take on a machine that is busy with other tests; only a failure waits for it.
const timeout = 30 * time.Second

// final ends a poll at once.
type final struct{ error }

func (f final) Unwrap() error { return f.error }

// poll calls f until it returns nil or a final error, or ctx ends. It returns what f returned last.
func poll(ctx context.Context, f func() error) error {
	for pause := time.Millisecond; ; pause = min(2*pause, 20*time.Millisecond) {
		err := f()
		var end final
		if err == nil || errors.As(err, &end) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}

// await polls f; the test fails when it does not come to nil.
func await(t testing.TB, what string, f func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	if err := poll(ctx, func() error { return f(ctx) }); err != nil {
		t.Fatalf("redistest: waited %v for %s: %v", timeout, what, err)
	}
}

// programEnv names the server to run when it is not the first of redis-server and valkey-server in the path.
const programEnv = "MILLRACE_REDIS_SERVER"

// program returns the path of the server's program. Without one it skips the test, or fails it on CI.
func program(t testing.TB) string {
	t.Helper()
	named := os.Getenv(programEnv)
	if named == "" {
		return need.Program(t, "redis-server", "valkey-server")
	}
	path, err := exec.LookPath(named)
	if err != nil {
		t.Fatalf("redistest: %s: %v", programEnv, err)
	}
	return path
}
