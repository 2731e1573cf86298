package cluster

import (
	"io"
	"net"
	"sync"
	"sync/atomic"

	"github.com/millrace-io/millrace/bench/measure"
)

// A counter is a proxy that forwards connections to a server and counts the bytes of the responses.
type counter struct {
	l     net.Listener
	bytes atomic.Int64

	mu      sync.Mutex
	open    map[net.Conn]bool // nil after close
	running sync.WaitGroup
}

func countBytes(target string) (*counter, error) {
	addr, err := measure.FreeAddr()
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	c := &counter{l: l, open: make(map[net.Conn]bool)}
	c.running.Go(func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			c.running.Go(func() { c.pass(from, target) })
		}
	})
	return c, nil
}

func (c *counter) addr() string { return c.l.Addr().String() }

func (c *counter) pass(from net.Conn, target string) {
	defer from.Close()
	server, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer server.Close()
	if !c.track(from, server) {
		return
	}
	go func() {
		io.Copy(server, from)
		server.Close()
	}()
	io.Copy(countingWriter{from, &c.bytes}, server)
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, from)
	delete(c.open, server)
}

// track adds conns to the connections that c.close closes. After c.close, it adds nothing and
// returns false.
func (c *counter) track(conns ...net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open == nil {
		return false
	}
	for _, conn := range conns {
		c.open[conn] = true
	}
	return true
}

func (c *counter) close() {
	c.l.Close()
	c.mu.Lock()
	for conn := range c.open {
		conn.Close()
	}
	c.open = nil
	c.mu.Unlock()
	c.running.Wait()
}

type countingWriter struct {
	w io.Writer
	n *atomic.Int64
}

func (w countingWriter) Write(p []byte) (int, error) {
	n, err := w.w.Write(p)
	w.n.Add(int64(n))
	return n, err
}
