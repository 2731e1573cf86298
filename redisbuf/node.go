package redisbuf

import (
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// checkIdleAfter is the idle time after which a connection is checked before it is used again,
	// because the server or a network device may have closed it. The check takes two system calls.
	checkIdleAfter = time.Second

	// maxIdleTime is the idle time after which a connection is closed, unless ConnMaxIdleTime is
	// shorter.
	maxIdleTime = 5 * time.Minute
)

// A node is one server, and the pool of connections to it.
type node struct {
	opt     *redis.Options
	servers *servers
	turns   *limiter // limits the connections in use

	unreachable atomic.Bool // the last dial and all its retries have failed

	mu     sync.Mutex
	live   map[*conn]struct{} // all connections
	idle   []*conn            // unused connections; the last one was used most recently
	epoch  int                // a connection with an older epoch is closed when its call ends
	lostAt time.Time          // last time that a connection was found to be lost
	closed bool
	peer   string // address of the newest connection
}

func newNode(opt *redis.Options, s *servers) *node {
	turns := newLimiter(int64(s.settings.conns), s.closing)
	return &node{opt: opt, servers: s, turns: turns, live: make(map[*conn]struct{})}
}

// acquire returns an idle or a new connection. The caller must return it with release.
func (n *node) acquire(ctx context.Context) (c *conn, err error) {
	if err := n.turns.acquire(ctx, 1, n.opt.PoolTimeout); err != nil {
		return nil, err
	}
	defer func() {
		if c == nil { // also after a panic of the user's code
			n.turns.release(1)
		}
	}()
	if c, err = n.takeIdle(); c != nil || err != nil {
		return c, err
	}
	return n.dial(ctx)
}

func (n *node) release(c *conn) {
	if c.broken {
		n.servers.counters.dropped.Add(1)
	}
	now := time.Now()
	n.mu.Lock()
	if c.lost {
		n.lostAt = now
	}
	keep := !c.broken && !c.replaced.Load() && c.epoch == n.epoch && !n.closed
	if keep {
		c.idleSince = now
		n.idle = append(n.idle, c)
	} else {
		delete(n.live, c)
	}
	n.mu.Unlock()
	if !keep {
		c.close()
	}
	n.turns.release(1)
}

func (n *node) takeIdle() (*conn, error) {
	for {
		c, suspect, err := n.popIdle()
		if c == nil {
			return nil, err
		}
		now := time.Now()
		if !n.isExpired(c, now) {
			if !suspect && now.Sub(c.idleSince) < checkIdleAfter {
				return c, nil
			}
			usable, known := c.checkIdle()
			if usable && (known || !suspect) {
				return c, nil
			}
			n.servers.counters.dropped.Add(1)
		}
		n.discard(c)
	}
}

// popIdle removes and returns the most recently used idle connection, or nil. suspect reports
// whether another connection was lost after the last use of c.
func (n *node) popIdle() (c *conn, suspect bool, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil, false, ErrClosed
	}
	last := len(n.idle) - 1
	if last < 0 {
		return nil, false, nil
	}
	c, n.idle[last] = n.idle[last], nil
	n.idle = n.idle[:last]
	return c, !c.idleSince.After(n.lostAt), nil
}

func (n *node) add(c *conn) error {
	if a := c.net.RemoteAddr(); a != nil {
		c.peer = a.String() // before the lock, because String may be the user's code
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return ErrClosed
	}
	c.epoch = n.epoch
	n.live[c] = struct{}{}
	n.peer = c.peer
	return nil
}

// addr returns the server's address. For a Sentinel, it is the master's address, or "" before the
// first connection.
func (n *node) addr() string {
	if n.opt.Addr != failoverAddr {
		return n.opt.Addr
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.peer
}

// discard closes a connection that takeIdle has rejected. It need not set n.lostAt, because
// takeIdle also checks the other idle connections, which are older.
func (n *node) discard(c *conn) {
	n.mu.Lock()
	delete(n.live, c)
	n.mu.Unlock()
	c.close()
}

// isExpired reports whether a connection is too old, was idle for too long, or belongs to a former
// master.
func (n *node) isExpired(c *conn, now time.Time) bool {
	idle := time.Duration(maxIdleTime)
	if n.opt.ConnMaxIdleTime > 0 {
		idle = min(idle, n.opt.ConnMaxIdleTime)
	}
	life := n.opt.ConnMaxLifetime
	return c.replaced.Load() || now.Sub(c.idleSince) > idle || life > 0 && now.Sub(c.born) > life
}

func (n *node) closeExpired() {
	now := time.Now()
	n.closeIdle(func(c *conn) bool { return n.isExpired(c, now) })
}

// reset closes all connections, each after its current call.
func (n *node) reset() {
	n.mu.Lock()
	n.epoch++
	n.mu.Unlock()
	n.closeIdle(func(*conn) bool { return true })
}

func (n *node) closeIdle(match func(*conn) bool) {
	for _, c := range n.removeIdle(match) {
		c.close()
	}
}

func (n *node) removeIdle(match func(*conn) bool) (taken []*conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	kept := n.idle[:0]
	for _, c := range n.idle {
		if match(c) {
			delete(n.live, c)
			taken = append(taken, c)
		} else {
			kept = append(kept, c)
		}
	}
	clear(n.idle[len(kept):])
	n.idle = kept
	return taken
}

// close closes all connections, including connections in use.
func (n *node) close() {
	n.mu.Lock()
	n.closed = true
	live := slices.Collect(maps.Keys(n.live))
	n.mu.Unlock()
	for _, c := range live {
		_ = c.net.Close() // a call that uses c fails, and releases it
	}
	n.closeIdle(func(*conn) bool { return true })
}

// closedError returns ErrClosed if err is the consequence of n.close, and err otherwise.
func (n *node) closedError(err error) error {
	if !errors.Is(err, net.ErrClosed) {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return ErrClosed
	}
	return err
}

func (n *node) stats(s *Stats) {
	s.Waiting += int(n.turns.waiting.Load())
	n.mu.Lock()
	defer n.mu.Unlock()
	s.Conns += len(n.live)
	s.Idle += len(n.idle)
}
