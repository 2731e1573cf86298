package redisbuf

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// A Client moves large values between Redis and the caller's memory, over connections of its own. Everything else stays
// with the go-redis client that it was made from, whose addresses, credentials and topology it uses.
//
// All methods may be called from any goroutine.
//
// Invariant: the weights of all calls under way ≤ settings.inFlight, or there is one such call.
type Client struct {
	commands
	settings settings
	router   router
	inFlight *quota
	expected atomic.Int64 // length of the last value that came unannounced: a guess for the next
	counters counters

	mu     sync.RWMutex
	nodes  map[place]*node
	closed bool

	closing context.Context // ends when Close begins
	stop    context.CancelFunc
	running sync.WaitGroup // what ends because of that: the janitor, and who follow the masters of Sentinels
}

// New returns a Client for the servers of rdb, which is a *redis.Client (of a server, or of a Sentinel's master), a
// *redis.ClusterClient or a *redis.Ring of such clients. It borrows rdb, which must stay open for as long as the Client is
// used. Close ends the Client's own connections.
//
// Network, address, Dialer, TLS, credentials (as they are when a connection is made), database, protocol, client name,
// timeouts and retries are those of rdb's options: DialerRetries for a server that was there last time, and one dial for each
// try of a call as long as it is not. Hooks, OnConnect and Limiter are not called, and replicas not read.
// (A NewFailoverClusterClient chooses its database in an OnConnect of its own: use it with database 0 only.)
// A context's deadline is always obeyed, whatever ContextTimeoutEnabled says. Only in a cluster is a call sent on to the
// server that MOVED or ASK names.
//
// While there are connections to a Sentinel's master, rdb's Dialer, which asks the Sentinel, makes one more each second
// as a check. That one is closed at once; if it leads elsewhere, the others are given up. Once the Sentinel names a new
// master, no call starts on the old one for longer than a second plus the time of that check. If the Sentinel cannot be
// reached, everything stays as it is.
func New(rdb redis.UniversalClient, opts ...Option) (*Client, error) {
	s := settings{conns: defaultConns, inFlight: defaultInFlight, maxValue: defaultMaxValue}
	for _, opt := range opts {
		opt(&s)
	}
	r, err := routerOf(rdb)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	c := &Client{
		settings: s, router: r, inFlight: newQuota(s.inFlight),
		nodes: make(map[place]*node), closing: ctx, stop: stop,
	}
	c.commands = commands{client: c}
	c.running.Go(func() { c.clean(ctx) })
	return c, nil
}

// Close closes the connections. Calls that are under way end with an error; those that wait for others, or begin
// afterwards, end with ErrClosed. It waits for a check of a Sentinel's master that is under way, whose context has ended.
func (c *Client) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return ErrClosed
	}
	c.closed = true
	c.mu.Unlock()
	c.stop()
	c.running.Wait()
	for _, n := range c.nodes { // nobody adds any more
		n.close()
	}
	return nil
}

// A place is what two servers differ in: in a cluster the address, because options are also made for an address that a server
// names. Otherwise each shard has its options for good, and these may differ in anything: shards that are masters of a
// Sentinel's have one address and differ in their Dialer.
//
// Invariant: one of the two is set.
type place struct {
	addr string
	opt  *redis.Options
}

func (c *Client) placeOf(opt *redis.Options) place {
	if c.router.redirects() {
		return place{addr: opt.Addr}
	}
	return place{opt: opt}
}

// node returns the node that opt leads to.
func (c *Client) node(opt *redis.Options) (*node, error) {
	at := c.placeOf(opt)
	c.mu.RLock()
	n, closed := c.nodes[at], c.closed
	c.mu.RUnlock()
	if closed {
		return nil, ErrClosed
	}
	if n != nil {
		return n, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, ErrClosed
	}
	if n = c.nodes[at]; n == nil {
		n = newNode(opt, c)
		c.nodes[at] = n
		if opt.Addr == failoverAddr {
			ctx, stop := context.WithCancel(c.closing)
			n.stopFollowing = stop
			c.running.Go(func() { n.keepFollowing(ctx) })
		}
	}
	return n, nil
}

const (
	// cleanEvery is how often connections that nobody uses are looked at.
	cleanEvery = 30 * time.Second

	// forgetAfter is how long a server may go without a call before it is forgotten: it may have left the cluster.
	forgetAfter = 10 * time.Minute
)

// clean closes connections that were idle for too long, or are too old.
func (c *Client) clean(ctx context.Context) {
	t := time.NewTicker(cleanEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		c.mu.Lock()
		for at, n := range c.nodes {
			if n.clean(); n.forgotten() {
				delete(c.nodes, at)
				n.stopFollowing()
				go n.conns.Close() // a call may have got hold of it
			}
		}
		c.mu.Unlock()
	}
}

// A router says which server has a key.
type router interface {
	// route returns the options of the server that has key, and borrows them.
	route(ctx context.Context, key string) (*redis.Options, error)

	// reload is called when the server said that it is not the one, or was lost.
	reload(ctx context.Context)

	// redirects reports whether a server may send a call to another one, which is shown the credentials.
	redirects() bool

	// retries returns how often a call may be tried again, and how long to wait for that, at least and at most.
	retries() (n int, least, most time.Duration)
}

func routerOf(rdb redis.UniversalClient) (router, error) {
	switch rdb := rdb.(type) {
	case *redis.Client:
		if rdb != nil {
			return single{rdb.Options()}, nil
		}
	case *redis.ClusterClient:
		if rdb != nil {
			return cluster{rdb}, nil
		}
	case *redis.Ring:
		if rdb != nil {
			return ring{rdb}, nil
		}
	case nil:
	default:
		return nil, fmt.Errorf("redisbuf: New of a %T, want *redis.Client, *redis.ClusterClient or *redis.Ring", rdb)
	}
	return nil, errors.New("redisbuf: New without a client")
}

type single struct{ opt *redis.Options }

func (s single) route(context.Context, string) (*redis.Options, error) { return s.opt, nil }
func (s single) reload(context.Context)                                {}
func (s single) redirects() bool                                       { return false }
func (s single) retries() (n int, least, most time.Duration) {
	return s.opt.MaxRetries, s.opt.MinRetryBackoff, s.opt.MaxRetryBackoff
}

type cluster struct{ rdb *redis.ClusterClient }

// inSlot0 is a key of slot 0, which is that of the empty key. For go-redis an empty key is none, and belongs anywhere.
const inSlot0 = "06S"

func (c cluster) route(ctx context.Context, key string) (*redis.Options, error) {
	if key == "" {
		key = inSlot0
	}
	master, err := c.rdb.MasterForKey(ctx, key)
	if err != nil {
		return nil, err
	}
	return master.Options(), nil
}

func (c cluster) reload(ctx context.Context) { c.rdb.ReloadState(ctx) }
func (c cluster) redirects() bool            { return true }

func (c cluster) retries() (n int, least, most time.Duration) {
	opt := c.rdb.Options()
	return opt.MaxRedirects, opt.MinRetryBackoff, opt.MaxRetryBackoff
}

type ring struct{ rdb *redis.Ring }

func (r ring) route(_ context.Context, key string) (*redis.Options, error) {
	shard, err := r.rdb.GetShardClientForKey(key)
	if err != nil {
		return nil, err
	}
	return shard.Options(), nil
}

func (r ring) reload(context.Context) {}
func (r ring) redirects() bool        { return false }

func (r ring) retries() (n int, least, most time.Duration) {
	opt := r.rdb.Options()
	return opt.MaxRetries, opt.MinRetryBackoff, opt.MaxRetryBackoff
}
