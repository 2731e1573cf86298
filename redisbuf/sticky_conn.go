package redisbuf

import (
	"context"
	"sync/atomic"
)

// A Conn is a Client that uses one connection for all calls, so that the server executes them in
// order. Only one goroutine at a time may use a Conn. Close returns the connection to the Client
// that made the Conn.
//
// The key of the first call determines the server. A Conn differs from other Clients:
//
//   - Calls are not retried.
//   - If a later key is on another server, the call returns [ErrOtherServer].
//   - After the connection is lost, all calls return [ErrConnLost].
//   - A call that is made during another call, for example by its reader or writer, returns
//     [ErrConnBusy].
//   - In a cluster, a call for a slot that is being moved returns a MOVED or ASK error. After the
//     move, a new Conn reaches the right server.
type Conn struct {
	Client
	own stickyConn
}

// A stickyConn holds the connection that all calls of a Conn use.
type stickyConn struct {
	busy   atomic.Bool // a call is running, and only that call may access the other fields
	node   *node
	conn   *conn // nil before the first use and after Close
	closed bool
}

// Conn returns a Client that uses one connection for all calls. If the Client has only one server,
// Conn takes a connection at once, and waits for it until ctx ends. Otherwise the Conn takes its
// connection at its first call.
func (c *Client) Conn(ctx context.Context) (*Conn, error) {
	conn := &Conn{}
	conn.Client = Client{servers: c.servers, sticky: &conn.own}
	if c.router.one == nil {
		return conn, ctx.Err()
	}
	k := call{client: &Client{servers: c.servers}, ctx: ctx, cmd: &commandInfo{}}
	for {
		first, err := k.connect()
		if err == nil {
			conn.own.take(k.node, first)
			return conn, nil
		}
		if err := k.prepareRetry(err); err != nil {
			return nil, err
		}
	}
}

// Close returns the connection to the Client. Later calls return ErrClosed. While a call is
// running, Close returns ErrConnBusy and does nothing.
func (c *Conn) Close() error {
	if !c.own.busy.CompareAndSwap(false, true) {
		return ErrConnBusy
	}
	defer c.own.leave()
	if c.own.closed {
		return ErrClosed
	}
	c.own.closed = true
	if c.own.conn != nil {
		c.own.conn.keep = false
		c.own.node.release(c.own.conn)
		c.own.conn = nil
	}
	return nil
}

// reserve reserves the Conn's connection for a call to the server n. If there is no error, the
// caller must call leave after the call.
func (s *stickyConn) reserve(ctx context.Context, n *node) (c *conn, err error) {
	if !s.busy.CompareAndSwap(false, true) {
		return nil, ErrConnBusy
	}
	defer func() {
		if c == nil { // also after a panic of the user's Dialer
			s.leave()
		}
	}()
	switch {
	case s.closed:
		return nil, ErrClosed
	case s.conn == nil:
		c, err := n.acquire(ctx)
		if err != nil {
			return nil, err
		}
		s.take(n, c)
	case s.node != n:
		return nil, ErrOtherServer
	case s.conn.broken, s.conn.replaced.Load():
		return nil, ErrConnLost
	}
	return s.conn, nil
}

func (s *stickyConn) leave() { s.busy.Store(false) }

func (s *stickyConn) take(n *node, c *conn) {
	s.node, s.conn = n, c
	c.keep = true
}
