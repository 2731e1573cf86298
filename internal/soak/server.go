package soak

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// What a server is told, beyond where its files and blobs are. Nothing that cuts a client may depend on how busy the machine
// is: where it comes to a stop for ten seconds, nobody has done anything wrong.
const (
	drainTimeout  = time.Second
	stallTimeout  = time.Minute
	headerTimeout = time.Minute
	// Shorter than a group of pictures and a stall together, so that a viewer that stalls is moved forward.
	lagTime = 250 * time.Millisecond
	// What the kernel holds for a viewer. With less, a stall is seen sooner.
	unsent = 32 << 10
)

// A server is a process that is restarted now and then, and the clients' way to it.
type server struct {
	name   string // "directory" or "redis"
	cfg    *Config
	dir    string   // for its log
	flags  []string // of its own
	tally  *tally
	faults *faults

	fast, fastHTTP2 *http.Client // for all but viewers that stall
	slow, slowHTTP2 *http.Client // with small windows, for those

	mu      sync.Mutex
	child   *child
	main    string // host:port
	admin   string
	epoch   int           // how often a restart was begun
	running chan struct{} // closed while the server runs
}

func newServer(name string, cfg *Config, dir string, t *tally, f *faults, flags ...string) *server {
	return &server{
		name: name, cfg: cfg, dir: dir, flags: flags, tally: t, faults: f,
		fast: newClient(0, false), slow: newClient(slowWindow, false),
		fastHTTP2: newClient(0, true), slowHTTP2: newClient(slowWindow, true), running: make(chan struct{}),
	}
}

// slowWindow is the receive buffer of clients that stall, which the system doubles, and the window of a stream of HTTP/2.
const slowWindow = 32 << 10

// newClient returns a client with such windows, or with the usual ones if that is 0. Without TLS, HTTP/2 is what both sides
// know of: there is nothing to agree by.
func newClient(window int, http2 bool) *http.Client {
	dialer := net.Dialer{Timeout: startPatience}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(!http2)
	protocols.SetUnencryptedHTTP2(http2)
	return &http.Client{Transport: &http.Transport{
		Protocols:           protocols,
		HTTP2:               &http.HTTP2Config{MaxReceiveBufferPerStream: window},
		DisableCompression:  true,
		MaxIdleConnsPerHost: 32,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, network, address)
			if tcp, ok := conn.(*net.TCPConn); ok && window > 0 {
				err = tcp.SetReadBuffer(window)
			}
			return conn, err
		},
	}}
}

// client is what a viewer uses.
func (s *server) client(h habit, w way) *http.Client {
	switch {
	case h == stalls && w.http2:
		return s.slowHTTP2
	case h == stalls:
		return s.slow
	case w.http2:
		return s.fastHTTP2
	}
	return s.fast
}

// hangUp closes the connections that nobody uses.
func (s *server) hangUp() {
	for _, c := range []*http.Client{s.fast, s.slow, s.fastHTTP2, s.slowHTTP2} {
		c.CloseIdleConnections()
	}
}

// start starts the process and returns when it listens.
func (s *server) start(ctx context.Context) error {
	args := append(append([]string(nil), s.cfg.Program[1:]...),
		"--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--log-format", "json",
		"--drain-timeout", drainTimeout.String(), "--stall-timeout", stallTimeout.String(), "--header-timeout", headerTimeout.String(),
		"--lag-time", lagTime.String(), "--unsent", fmt.Sprint(unsent))
	c, err := startChild(s.logName(), s.cfg.Env, s.cfg.Program[0], append(args, s.flags...)...)
	if err != nil {
		return err
	}
	main, admin, err := c.addresses(ctx)
	if err != nil {
		c.close()
		return fmt.Errorf("soak: server %s: %w", s.name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.child, s.main, s.admin = c, main, admin
	close(s.running)
	return nil
}

func (s *server) logName() string { return filepath.Join(s.dir, s.name+".log") }

// stop ends the process at once.
func (s *server) stop() {
	s.mu.Lock()
	c := s.child
	s.mu.Unlock()
	if c != nil {
		c.close()
	}
	s.hangUp()
}

// restart ends the process, with SIGTERM or SIGKILL, and starts the next. What clients asked for meanwhile may have failed.
func (s *server) restart(ctx context.Context, sig syscall.Signal) error {
	s.mu.Lock()
	c := s.child
	s.epoch++
	s.running = make(chan struct{})
	s.mu.Unlock()
	for _, text := range c.complaints() {
		s.faults.add("server %s: its log says: %s", s.name, text)
	}
	if sig == syscall.SIGKILL {
		if err := c.alive(); err != nil {
			s.faults.add("server %s: %v", s.name, err)
		}
		s.tally.Kills.Add(1)
	} else {
		took, err := c.terminate(drainTimeout + stopPatience)
		if err != nil {
			s.faults.add("server %s: %v", s.name, err)
		}
		s.tally.Terms.Add(1)
		s.tally.slowestDrain(took)
		for _, text := range c.complaints() {
			s.faults.add("server %s: its log says: %s", s.name, text)
		}
	}
	c.close()
	s.hangUp()
	return s.start(ctx)
}

// where waits until the server runs, and returns its address and the epoch, for excused.
func (s *server) where(ctx context.Context) (url string, epoch int, err error) {
	for {
		s.mu.Lock()
		running := s.running
		s.mu.Unlock()
		select {
		case <-running:
		case <-ctx.Done():
			return "", 0, ctx.Err()
		}
		s.mu.Lock()
		url, epoch, same := "http://"+s.main, s.epoch, s.running == running
		s.mu.Unlock()
		if same {
			return url, epoch, nil
		}
	}
}

// excused says whether what failed may have failed because the server was being restarted.
func (s *server) excused(epoch int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.epoch != epoch
}

// life returns the process, and its number.
func (s *server) life() (c *child, admin string, epoch int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.child, s.admin, s.epoch
}

// keepLog copies the server's log to a directory.
func (s *server) keepLog(dir string) error {
	text, err := os.ReadFile(s.logName())
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, s.name+".log"), text, 0o600)
}
