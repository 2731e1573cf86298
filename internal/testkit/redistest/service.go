package redistest

import (
	"io"
	"net"
	"sync"
	"testing"
)

const host = "127.0.0.1"

// A service accepts connections on a new port until the test ends.
type service struct {
	ln      net.Listener
	running sync.WaitGroup

	mu       sync.Mutex
	accepted int
	open     map[io.Closer]struct{}
	ended    bool
}

// start listens on a new port. For each connection, it calls the function serve in a new goroutine.
// serve owns the connection. When the test ends, a cleanup function closes the connections that are
// registered with add, and waits for the goroutines.
func (s *service) start(t testing.TB, serve func(net.Conn)) {
	t.Helper()
	ln, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	s.ln, s.open = ln, make(map[io.Closer]struct{})
	s.running.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return // the listener is closed
			}
			s.mu.Lock()
			s.accepted++
			s.mu.Unlock()
			s.running.Go(func() { serve(conn) })
		}
	})
	t.Cleanup(func() {
		ln.Close()
		s.mu.Lock()
		s.ended = true
		for c := range s.open {
			c.Close()
		}
		s.mu.Unlock()
		s.running.Wait()
	})
}

// add registers c to be closed when the test ends, or closes it if the test has ended.
func (s *service) add(c io.Closer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[c] = struct{}{}
	if s.ended {
		c.Close()
	}
}

func (s *service) remove(c io.Closer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, c)
}

// Addr returns the service's address, host:port.
func (s *service) Addr() string { return s.ln.Addr().String() }

// Accepted returns the number of connections accepted so far.
func (s *service) Accepted() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.accepted
}

// reset closes a connection with RST instead of FIN.
func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	c.Close()
}

func closeWrite(c net.Conn) {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}
