package redisbuf

import (
	"context"
	"sync/atomic"

	"github.com/jackc/puddle/v2"
)

// A Conn runs all of its calls on one connection, so they execute in order. It belongs to the server of the key that it
// is first used with; keys of other servers give [ErrOtherServer]. Calls are not retried, and once the connection is
// lost all of them give [ErrConnLost]. It has the methods of a Client, for one goroutine and one call at a time: a call from
// within the reader or writer of another one gives [ErrConnBusy].
//
// In a cluster, a slot that moves, or has moved, gives an error that says MOVED or ASK: a new Conn finds the slot, as a
// rule.
//
// Close gives the connection back.
type Conn struct {
	commands
	pin pinned
}

// pinned is a Conn's connection, which it takes when it is first used.
type pinned struct {
	busy   atomic.Bool // a call is under way; held to touch what is below
	node   *node
	res    *puddle.Resource[*conn]
	closed bool
}

// Conn returns a Conn. If the Client has one server, the Conn has its connection now; ctx is for the wait for that.
// Otherwise the Conn takes its connection when it is first used.
func (c *Client) Conn(ctx context.Context) (*Conn, error) {
	conn := &Conn{commands: commands{client: c}}
	conn.commands.pinned = &conn.pin
	if _, ok := c.router.(single); !ok {
		return conn, ctx.Err()
	}
	a := c.attempt(ctx, "", reads, 0)
	if !a.next() {
		return nil, a.err
	}
	conn.pin.take(a.node, a.res)
	return conn, nil
}

// use returns the connection, which must be to n. The caller gives it back by leave.
func (p *pinned) use(ctx context.Context, n *node) (*conn, error) {
	if !p.busy.CompareAndSwap(false, true) {
		return nil, ErrConnBusy // half of a value may be on the connection
	}
	given := false
	defer func() {
		if !given { // also after a panic of the user's Dialer
			p.leave()
		}
	}()
	switch {
	case p.closed:
		return nil, ErrClosed
	case p.res == nil:
		res, err := n.acquire(ctx)
		if err != nil {
			return nil, err
		}
		p.take(n, res)
	case p.node != n:
		return nil, ErrOtherServer
	case p.res.Value().broken, p.res.Value().left.Load():
		return nil, ErrConnLost
	}
	given = true
	return p.res.Value(), nil
}

// leave is called when a call has ended.
func (p *pinned) leave() { p.busy.Store(false) }

// take has the Conn own res, a connection to n.
func (p *pinned) take(n *node, res *puddle.Resource[*conn]) {
	p.node, p.res = n, res
	res.Value().keep = true
}

// Close gives the connection back. What is called afterwards gives ErrClosed. While a call is under way it gives ErrConnBusy,
// and does nothing.
func (c *Conn) Close() error {
	if !c.pin.busy.CompareAndSwap(false, true) {
		return ErrConnBusy
	}
	defer c.pin.leave()
	if c.pin.closed {
		return ErrClosed
	}
	c.pin.closed = true
	if c.pin.res != nil {
		c.pin.res.Value().keep = false
		c.pin.node.release(c.pin.res)
		c.pin.res = nil
	}
	return nil
}
