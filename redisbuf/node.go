package redisbuf

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/puddle/v2"
	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/semaphore"
)

// idleUnchecked is how long a connection may have been idle without being looked at before it is used again: a server or
// something in between may have closed it. Looking is a system call.
const idleUnchecked = time.Second

// A node is one server, and the connections to it.
type node struct {
	opt   *redis.Options
	conns *puddle.Pool[*conn]
	turns *semaphore.Weighted // so that waiting for a connection can have a timeout
	idle  time.Duration       // 0 for ever
	life  time.Duration       // 0 for ever

	lastUsed atomic.Int64 // Unix seconds
	maxValue int64

	mu   sync.Mutex
	live map[*conn]struct{} // all connections, also those that are used
	shut bool               // there are not to be any more
}

func newNode(opt *redis.Options, s *settings) *node {
	n := &node{opt: opt, turns: semaphore.NewWeighted(int64(s.conns)), idle: s.idle, life: s.lifetime, maxValue: s.maxValue,
		live: make(map[*conn]struct{})}
	if !s.idleSet {
		n.idle = defaultIdle
		if opt.ConnMaxIdleTime > 0 {
			n.idle = min(n.idle, opt.ConnMaxIdleTime)
		}
	}
	if !s.lifetimeSet {
		n.life = max(opt.ConnMaxLifetime, 0)
	}
	n.lastUsed.Store(time.Now().Unix())
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
		if err := n.wait(ctx); err != nil {
			return nil, err
		}
	}
	for {
		res, err := n.conns.Acquire(ctx)
		if err != nil {
			n.turns.Release(1)
			if err == puddle.ErrClosedPool && n.isShut() {
				err = ErrClosed // otherwise the node was forgotten just now, and there is another one
			}
			return nil, err
		}
		if n.usable(res) {
			return res, nil
		}
		res.Destroy()
	}
}

// wait waits for a turn.
func (n *node) wait(ctx context.Context) error {
	if n.opt.PoolTimeout > 0 {
		inner, cancel := context.WithTimeoutCause(ctx, n.opt.PoolTimeout, redis.ErrPoolTimeout)
		defer cancel()
		if err := n.turns.Acquire(inner, 1); err != nil {
			return context.Cause(inner)
		}
		return nil
	}
	return n.turns.Acquire(ctx, 1)
}

// release gives a connection back.
func (n *node) release(res *puddle.Resource[*conn]) {
	if res.Value().broken {
		res.Destroy()
	} else {
		res.Release()
	}
	n.turns.Release(1)
}

// usable reports whether a connection from the pool can be used.
func (n *node) usable(res *puddle.Resource[*conn]) bool {
	idle := res.IdleDuration()
	if idle < idleUnchecked {
		return true
	}
	n.lastUsed.Store(time.Now().Unix())
	return !n.outdated(res) && res.Value().quiet()
}

func (n *node) outdated(res *puddle.Resource[*conn]) bool {
	return n.idle > 0 && res.IdleDuration() > n.idle || n.life > 0 && time.Since(res.Value().born) > n.life
}

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

// forgotten reports whether nobody has used the node for long.
func (n *node) forgotten() bool {
	return n.conns.Stat().TotalResources() == 0 && time.Since(time.Unix(n.lastUsed.Load(), 0)) > forgetAfter
}

// dial makes a connection.
func (n *node) dial(ctx context.Context) (*conn, error) {
	if n.opt.DialTimeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, n.opt.DialTimeout)
		defer cancel()
	}
	netConn, err := n.opt.Dialer(ctx, n.opt.Network, n.opt.Addr)
	if err != nil {
		return nil, n.dialError(err)
	}
	c := newConn(netConn, n.opt.ReadTimeout, n.opt.WriteTimeout, n.maxValue)
	if err := c.introduce(ctx, n.opt); err != nil {
		_ = netConn.Close()
		if !isServerError(err) {
			err = n.dialError(err) // also if it is a context's: that is not the caller's, but the dial's
		}
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.shut {
		_ = netConn.Close()
		return nil, ErrClosed
	}
	n.live[c] = struct{}{}
	return c, nil
}

func (n *node) dialError(err error) error {
	return &net.OpError{Op: "dial", Net: n.opt.Network, Err: err}
}

// hangUp closes a connection that nobody uses.
func (n *node) hangUp(c *conn) {
	n.mu.Lock()
	delete(n.live, c)
	n.mu.Unlock()
	_ = c.conn.Close()
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
