package upload

import (
	"context"
	"net"
	"sync"
	"time"
)

// answerWait is how long an answer that has come may take to be read when nothing can be sent any more. It is in the kernel's
// buffer already.
const answerWait = time.Second

// A conn sees to it that an answer is read before the failure of a write is told: net/http ends a request that it
// cannot send, and does not look whether the server has said why it takes no more.
//
// One goroutine reads and one writes.
type conn struct {
	net.Conn
	once sync.Once
	read chan struct{} // closed when there is nothing more to read, or nobody to read it
}

// dial connects as net/http does.
func dial(ctx context.Context, network, addr string) (net.Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c, read: make(chan struct{})}, nil
}

// Read implements net.Conn.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil {
		c.allRead()
	}
	return n, err
}

// Write implements net.Conn.
func (c *conn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if err != nil {
		timer := time.NewTimer(answerWait)
		defer timer.Stop()
		select {
		case <-c.read:
		case <-timer.C:
		}
	}
	return n, err
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.allRead()
	return c.Conn.Close()
}

func (c *conn) allRead() { c.once.Do(func() { close(c.read) }) }
