package redisbuf

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/puddle/v2"
	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/semaphore"
)

// idleUnchecked is how long a connection may have been idle without being looked at before it is used again: a server or
// something in between may have closed it. Looking takes two system calls.
const idleUnchecked = time.Second

// A node is one server, and the connections to it.
type node struct {
	opt   *redis.Options
	conns *puddle.Pool[*conn]
	turns queue         // so that waiting for a connection can have a timeout
	idle  time.Duration // 0 for ever
	life  time.Duration // 0 for ever

	maxValue int64

	dials    atomic.Int64 // tried
	uses     int64        // calls that had got a connection, and dials, when the janitor came last
	lastUsed time.Time    // when it found more of them

	losses atomic.Int64 // connections that were lost: the others may be, too, as when the server was restarted

	mu   sync.Mutex
	live map[*conn]struct{} // all connections, also those that are used
	shut bool               // no more are to be made

	away    atomic.Bool     // the last dial has failed, with all its tries
	closing context.Context // the client's
	count   *counters       // the client's

	stopFollowing context.CancelFunc // of keepFollowing, if that is called
}

func newNode(opt *redis.Options, client *Client) *node {
	s := &client.settings
	n := &node{opt: opt, idle: s.idle, life: s.lifetime, maxValue: s.maxValue, live: make(map[*conn]struct{}),
		closing: client.closing, count: &client.counters, stopFollowing: func() {}}
	n.turns.Weighted = semaphore.NewWeighted(int64(s.conns))
	if !s.idleSet {
		n.idle = defaultIdle
		if opt.ConnMaxIdleTime > 0 {
			n.idle = min(n.idle, opt.ConnMaxIdleTime)
		}
	}
	if !s.lifetimeSet {
		n.life = max(opt.ConnMaxLifetime, 0)
	}
	n.lastUsed = time.Now()
	n.conns, _ = puddle.NewPool(&puddle.Config[*conn]{ // the only error is a size below 1
		Constructor: n.dial,
		Destructor:  n.hangUp,
		MaxSize:     int32(s.conns),
	})
	return n
}

// acquire returns a connection, which the caller gives back by release.
func (n *node) acquire(ctx context.Context) (*puddle.Resource[*conn], error) {
	if !n.turns.TryAcquire(1) {
		if err := wait(ctx, n.closing, &n.turns, 1, n.opt.PoolTimeout); err != nil {
			return nil, err
		}
	}
	given := false
	defer func() {
		if !given { // also after a panic of the user's DialerRetryBackoff
			n.turns.Release(1)
		}
	}()
	for failures := 0; ; {
		res, err := n.conns.Acquire(ctx)
		if err != nil {
			if failures++; n.redial(ctx, err, failures) {
				continue
			}
			return nil, n.notAcquired(err)
		}
		if n.usable(res) {
			given = true
			res.Value().used.Store(true)
			return res, nil
		}
		res.Destroy()
	}
}

// notAcquired returns what it means to a call that there is no connection because of err, or panics.
func (n *node) notAcquired(err error) error {
	switch e := err.(type) {
	case *dialPanic:
		panic(e.value) // where whoever made the call can recover from it
	case *absentError:
		return e.err
	}
	if err == puddle.ErrClosedPool && n.isShut() {
		return ErrClosed // otherwise the node was forgotten just now, and there is another one
	}
	return err
}

// An acquirer is a semaphore.
type acquirer interface {
	Acquire(ctx context.Context, n int64) error
}

// wait acquires so much of s. It gives up when ctx ends or closing does, and after the timeout, unless that is 0.
func wait(ctx, closing context.Context, s acquirer, weight int64, timeout time.Duration) error {
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(closing, func() { cancel(ErrClosed) })()
	if timeout > 0 {
		defer time.AfterFunc(timeout, func() { cancel(redis.ErrPoolTimeout) }).Stop()
	}
	if s.Acquire(inner, weight) == nil {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return context.Cause(inner)
}

// release gives a connection back.
func (n *node) release(res *puddle.Resource[*conn]) {
	c := res.Value()
	if c.lost {
		n.losses.Add(1)
	}
	if c.broken {
		n.count.dropped.Add(1)
	}
	if c.broken || c.left.Load() {
		res.Destroy()
	} else {
		c.used.Store(false)
		res.Release()
	}
	n.turns.Release(1)
}

// usable reports whether a connection from the pool can be used.
func (n *node) usable(res *puddle.Resource[*conn]) bool {
	c, losses := res.Value(), n.losses.Load()
	if c.left.Load() || n.old(c) {
		return false
	}
	if res.IdleDuration() < idleUnchecked && c.losses == losses {
		return true
	}
	if n.outdated(res) {
		return false
	}
	switch quiet, known := c.quiet(); {
	case !quiet:
		n.losses.Add(1)
	case known || c.losses == losses:
		c.losses = losses
		return true
	default: // a new one is better than one try for each of those that may be lost
	}
	n.count.dropped.Add(1)
	return false
}

func (n *node) outdated(res *puddle.Resource[*conn]) bool {
	c := res.Value()
	return c.left.Load() || n.idle > 0 && res.IdleDuration() > n.idle || n.old(c)
}

func (n *node) old(c *conn) bool { return n.life > 0 && time.Since(c.born) > n.life }

// clean closes the connections that nobody uses and that are outdated.
func (n *node) clean() {
	for _, res := range n.conns.AcquireAllIdle() {
		if n.outdated(res) {
			res.Destroy()
		} else {
			res.ReleaseUnused()
		}
	}
}

// forgotten reports whether nobody has used the node for long. It is for the janitor: what it sees of the pool's own count from
// one time to the next costs calls nothing.
func (n *node) forgotten() bool {
	pool := n.conns.Stat()
	if uses := pool.AcquireCount() + n.dials.Load(); uses != n.uses {
		n.uses, n.lastUsed = uses, time.Now()
	}
	return pool.TotalResources() == 0 && time.Since(n.lastUsed) > forgetAfter
}

// A dialPanic is what the user's Dialer or provider of credentials has panicked with. The pool calls them on a goroutine of
// its own, where nobody could recover from it.
type dialPanic struct{ value any }

func (p *dialPanic) Error() string { return fmt.Sprint("redisbuf: dial: panic: ", p.value) }

// errDialGoexit is what a call panics with when the user's Dialer or provider of credentials has ended its goroutine.
var errDialGoexit = errors.New("redisbuf: a Dialer or a provider of credentials has called runtime.Goexit")

// apart calls f, which calls the user's code, on a goroutine of its own: who waits for that goes on even if it is ended by
// runtime.Goexit. It returns what f has panicked with, or nil.
func apart(f func()) (panicked any) {
	panicked = errDialGoexit
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer func() {
			if v := recover(); v != nil {
				panicked = v
			}
		}()
		f()
		panicked = nil
	}()
	<-ended
	return panicked
}

// dial makes a connection.
func (n *node) dial(ctx context.Context) (c *conn, err error) {
	n.dials.Add(1)
	n.count.dials.Add(1)
	if v := apart(func() { c, err = n.join(ctx) }); v != nil {
		c, err = nil, &dialPanic{v}
	}
	if err != nil {
		n.count.dialsFailed.Add(1)
	}
	return c, err
}

// join makes a connection, and counts it among those of the node.
func (n *node) join(ctx context.Context) (*conn, error) {
	losses := n.losses.Load()
	c, err := n.reach(ctx)
	if err != nil {
		return nil, &absentError{n.dialError(err, nil)}
	}
	c.losses = losses
	if err := n.greet(ctx, c); err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.shut {
		_ = c.conn.Close()
		return nil, ErrClosed
	}
	n.live[c] = struct{}{}
	n.away.Store(false)
	return c, nil
}

// greet has the new connection introduce itself, or closes it.
func (n *node) greet(ctx context.Context, c *conn) error {
	greeted := false
	defer func() {
		if !greeted {
			_ = c.conn.Close()
		}
	}()
	ctx, cancel := n.dialing(ctx)
	defer cancel()
	err := c.introduce(ctx, n.opt)
	if err != nil && !isServerError(err) {
		err = n.dialError(err, c.conn.RemoteAddr()) // also if it is a context's: that is not the caller's, but the dial's
	}
	greeted = err == nil
	return err
}

// reach connects within the time that a dial may take.
func (n *node) reach(ctx context.Context) (*conn, error) {
	ctx, cancel := n.dialing(ctx)
	defer cancel()
	return n.connect(ctx)
}

// An absentError says that a server could not be reached.
type absentError struct{ err error }

func (e *absentError) Error() string { return e.err.Error() }

// redial reports whether to dial again after so many failures, the last of which is err, and waits before. As go-redis does, it
// rides out a short outage. As long as the server stays away, others do not wait: they fail fast, and calls have retries of
// their own.
func (n *node) redial(ctx context.Context, err error, failures int) bool {
	if _, absent := err.(*absentError); !absent {
		return false
	}
	if n.away.Load() || failures >= n.opt.DialerRetries {
		n.away.Store(true)
		return false
	}
	pause := n.opt.DialerRetryTimeout
	if n.opt.DialerRetryBackoff != nil {
		pause = n.opt.DialerRetryBackoff(failures - 1)
	}
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-n.closing.Done():
	case <-ctx.Done():
	}
	return false
}

// dialing returns a context for a dial, which ends as ctx does.
func (n *node) dialing(ctx context.Context) (context.Context, context.CancelFunc) {
	if n.opt.DialTimeout > 0 {
		return context.WithTimeout(ctx, n.opt.DialTimeout)
	}
	return ctx, func() {}
}

// connect makes a connection that nothing was said on yet.
func (n *node) connect(ctx context.Context) (*conn, error) {
	netConn, err := n.opt.Dialer(ctx, n.opt.Network, n.opt.Addr)
	if err != nil {
		return nil, err
	}
	return newConn(netConn, n.opt.ReadTimeout, n.opt.WriteTimeout, n.maxValue), nil
}

// dialError returns err as one of a dial, which it may be already.
func (n *node) dialError(err error, to net.Addr) error {
	var dial *net.OpError
	if errors.As(err, &dial) && dial.Op == "dial" {
		return err
	}
	return &net.OpError{Op: "dial", Net: n.opt.Network, Addr: to, Err: err}
}

// hangUp closes a connection that nobody uses.
func (n *node) hangUp(c *conn) {
	n.mu.Lock()
	delete(n.live, c)
	n.mu.Unlock()
	_ = c.conn.Close()
}

// endedBy returns ErrClosed instead of the error of a connection that close has closed.
func (n *node) endedBy(err error) error {
	if errors.Is(err, net.ErrClosed) && n.isShut() {
		return ErrClosed
	}
	return err
}

func (n *node) isShut() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.shut
}

// close closes all connections, also under those who use them.
func (n *node) close() {
	n.mu.Lock()
	n.shut = true
	for c := range n.live {
		_ = c.conn.Close()
	}
	n.mu.Unlock()
	go n.conns.Close() // which waits for them
}
