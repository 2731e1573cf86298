package nettest

import (
	"io"
	"math"
	"net"
	"sync"
	"testing"
)

// A Link is a proxy that forwards connections to a server and can break them.
type Link struct {
	ln net.Listener
	to string

	mu    sync.Mutex
	conns map[net.Conn]bool
	down  bool
	limit int64 // maximum length of a connection's response, in bytes
}

// NewLink returns a Link to the server at addr. The Link is closed when the test ends.
func NewLink(t testing.TB, addr string) *Link {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &Link{ln: ln, to: addr, conns: make(map[net.Conn]bool), limit: math.MaxInt64}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			all.Go(func() { l.pass(conn) })
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		l.Cut(true)
		all.Wait()
	})
	return l
}

// Address returns the address that clients connect to, host:port.
func (l *Link) Address() string { return l.ln.Addr().String() }

// Limit makes new connections end after n bytes of response.
func (l *Link) Limit(n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.limit = n
}

// Cut breaks all connections. If down is set, the Link also breaks each new connection until the
// next Cut.
func (l *Link) Cut(down bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = down
	for c := range l.conns {
		_ = c.Close()
	}
}

func (l *Link) pass(in net.Conn) {
	defer in.Close()
	out, err := net.Dial("tcp", l.to)
	if err != nil {
		return
	}
	defer out.Close()
	l.mu.Lock()
	if l.down {
		l.mu.Unlock()
		return
	}
	l.conns[in], l.conns[out] = true, true
	limit := l.limit
	l.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(out, in)
		_ = out.Close()
	}()
	_, _ = io.CopyN(in, out, limit)
	_ = in.Close()
	<-done
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, in)
	delete(l.conns, out)
}
