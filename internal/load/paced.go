package load

import (
	"context"
	"net"
	"sync/atomic"
	"time"
)

// pacedConn reads at fixed moments, every so often, instead of whenever
// something arrives. It does in one call what would have been many, and
// acknowledges then: to the server it looks like a viewer that far away.
type pacedConn struct {
	net.Conn
	every time.Duration
	next  time.Time
}

// pacedPhases are the moments within one period among which connections are
// dealt out: those that share a moment share a wake-up.
const pacedPhases = 8

// Paced wraps dial so that its connections read every so often.
func Paced(dial DialFunc, every time.Duration) DialFunc {
	var made atomic.Int64
	began := time.Now()
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		phase := every * time.Duration(made.Add(1)%pacedPhases) / pacedPhases
		return &pacedConn{Conn: c, every: every, next: began.Add(phase)}, nil
	}
}

func (c *pacedConn) Read(p []byte) (int, error) {
	now := time.Now()
	if wait := c.next.Sub(now); wait > 0 {
		time.Sleep(wait)
		now = now.Add(wait)
	}
	c.next = c.next.Add(now.Sub(c.next)/c.every*c.every + c.every)
	return c.Conn.Read(p)
}
