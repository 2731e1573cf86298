package redisbuf

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// A Client moves large values between Redis and the caller's memory, over separate connections. It
// uses the addresses, credentials and topology of the go-redis client that was passed to New. The
// program continues to use the go-redis client for everything else.
//
// All methods may be called from any goroutine.
type Client struct {
	*servers
	sticky *stickyConn // the connection of a Conn; nil if each call takes one from a pool
}

// New returns a Client for the servers of rdb, a *redis.Client, *redis.ClusterClient or
// *redis.Ring. The Client borrows rdb, which must stay open while the Client is in use.
//
// The Client uses rdb's network, address, Dialer, TLS, credentials, database, protocol, client
// name, timeouts, lifetime of connections, and retries. It reads the credentials for each new
// connection.
//
// The Client differs from rdb in these points:
//
//   - The Client does not call Hooks, OnConnect or Limiter. Use [OnCall] instead of a Hook. A
//     client from NewFailoverClusterClient selects its database in OnConnect, so it must use
//     database 0.
//   - The Client does not read from replicas.
//   - A call ends at its context's deadline even if ContextTimeoutEnabled is not set. See SetFrom
//     and GetTo for a reader or writer that blocks.
//   - Only a Client for a cluster follows redirections (MOVED and ASK).
//
// While the Client has connections to a Sentinel's master, it checks every second whether the
// master was replaced. Each check makes a connection with rdb's Dialer, which queries the Sentinel.
// After a replacement, later calls use new connections. If a check cannot connect, nothing changes.
func New(rdb redis.UniversalClient, opts ...Option) (*Client, error) {
	s := settings{conns: defaultConns, inFlight: defaultInFlight}
	for _, opt := range opts {
		opt(&s)
	}
	r, err := routerOf(rdb)
	if err != nil {
		return nil, err
	}
	closing, stop := context.WithCancel(context.Background())
	all := &servers{
		settings: s, router: r, inFlight: newLimiter(s.inFlight, closing),
		nodes: make(map[serverKey]*node), closing: closing, stop: stop,
	}
	all.background.Go(all.closeExpired)
	return &Client{servers: all}, nil
}

// Close closes the Client's connections, but not rdb. Running calls end with an error. Waiting
// calls and later calls return ErrClosed. After Close, no Dialer or credentials provider runs in
// the background.
func (c *Client) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return ErrClosed
	}
	c.closed = true
	c.mu.Unlock()
	c.stop()
	c.background.Wait()
	for _, n := range c.nodes { // after closed is set, c.nodes does not change
		n.close()
	}
	return nil
}

// servers holds the state that a Client shares with its Conns.
type servers struct {
	settings settings
	router   router
	inFlight *limiter     // in bytes
	lastLen  atomic.Int64 // length of the last value that GetChain or GetTo has read
	counters counters

	mu sync.RWMutex
	// The servers that have ever been used, at most maxServers. A server stays here after it has
	// left the topology.
	nodes  map[serverKey]*node
	closed bool

	closing    context.Context // ends when Close begins
	stop       context.CancelFunc
	background sync.WaitGroup // goroutines that run until closing ends
}

// maxServers is the maximum number of servers that a Client remembers. Redirections can add
// servers, but a cluster cannot have more than 16384 masters, because it has 16384 slots.
const maxServers = 16384

// A serverKey identifies a server. In a cluster, a server is identified by its address, so only
// addr is set.
//
// Without a cluster, a server is identified by its options, so only opt is set. Two servers
// (shards) of a redis.Ring may have the same address and differ in another option, such as the
// Dialer.
type serverKey struct {
	addr string
	opt  *redis.Options
}

func (s *servers) keyOf(opt *redis.Options) serverKey {
	if s.router.redirects {
		return serverKey{addr: opt.Addr}
	}
	return serverKey{opt: opt}
}

func (s *servers) nodeOf(ctx context.Context, key string) (*node, error) {
	opt, err := s.router.route(ctx, key)
	if err != nil {
		return nil, err
	}
	return s.node(opt)
}

// node returns the node for the server, and creates it at the first call.
func (s *servers) node(opt *redis.Options) (*node, error) {
	key := s.keyOf(opt)
	s.mu.RLock()
	n, closed := s.nodes[key], s.closed
	s.mu.RUnlock()
	if closed {
		return nil, ErrClosed
	}
	if n != nil {
		return n, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ErrClosed
	}
	if n = s.nodes[key]; n == nil {
		if len(s.nodes) == maxServers {
			return nil, fmt.Errorf(
				"redisbuf: %s is one server more than the %d that a Client remembers", opt.Addr,
				maxServers)
		}
		n = newNode(opt, s)
		s.nodes[key] = n
		if opt.Addr == failoverAddr {
			s.background.Go(func() { n.followMaster(s.closing) })
		}
	}
	return n, nil
}

const expiryInterval = 30 * time.Second

// closeExpired closes expired connections at regular intervals, until the Client is closed.
func (s *servers) closeExpired() {
	t := time.NewTicker(expiryInterval)
	defer t.Stop()
	for {
		select {
		case <-s.closing.Done():
			return
		case <-t.C:
		}
		s.mu.RLock()
		nodes := slices.Collect(maps.Values(s.nodes))
		s.mu.RUnlock()
		for _, n := range nodes {
			n.closeExpired()
		}
	}
}

// sleep waits for d. It returns ctx's error if ctx ends, and ErrClosed if the Client is closed.
func (s *servers) sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-s.closing.Done():
		return cmp.Or(ctx.Err(), ErrClosed)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A router finds the server for a key, with the help of a go-redis client.
type router struct {
	one *redis.Options // options of the only server; nil if there may be several servers

	// route returns the options of the server that holds key. The caller must not change them.
	route func(ctx context.Context, key string) (*redis.Options, error)

	// reload reloads the topology of a cluster. It is nil if the servers are not a cluster.
	reload func(ctx context.Context)

	// Whether calls follow redirections. The credentials are then sent to the server that a
	// redirection names.
	redirects          bool
	retries            int           // maximum number of retries of a call
	minPause, maxPause time.Duration // limits of the pause before a retry
}

func routerOf(rdb redis.UniversalClient) (router, error) {
	switch rdb := rdb.(type) {
	case *redis.Client:
		if rdb != nil {
			return routerOfOne(rdb.Options()), nil
		}
	case *redis.ClusterClient:
		if rdb != nil {
			return routerOfCluster(rdb), nil
		}
	case *redis.Ring:
		if rdb != nil {
			return routerOfRing(rdb), nil
		}
	case nil:
	default:
		return router{}, fmt.Errorf(
			"redisbuf: New of a %T, want *redis.Client, *redis.ClusterClient or *redis.Ring", rdb)
	}
	return router{}, errors.New("redisbuf: New without a client")
}

// routerOfOne returns the router for one server, or for a Sentinel's master.
func routerOfOne(opt *redis.Options) router {
	return router{
		one:     opt,
		route:   func(context.Context, string) (*redis.Options, error) { return opt, nil },
		retries: opt.MaxRetries, minPause: opt.MinRetryBackoff, maxPause: opt.MaxRetryBackoff,
	}
}

// keyOfSlot0 replaces the empty key (slot 0), for which go-redis may choose any server.
const keyOfSlot0 = "06S"

func routerOfCluster(rdb *redis.ClusterClient) router {
	opt := rdb.Options()
	return router{
		route: func(ctx context.Context, key string) (*redis.Options, error) {
			master, err := rdb.MasterForKey(ctx, cmp.Or(key, keyOfSlot0))
			if err != nil {
				return nil, err
			}
			return master.Options(), nil
		},
		reload:    rdb.ReloadState,
		redirects: true,
		retries:   opt.MaxRedirects, minPause: opt.MinRetryBackoff, maxPause: opt.MaxRetryBackoff,
	}
}

func routerOfRing(rdb *redis.Ring) router {
	opt := rdb.Options()
	return router{
		route: func(_ context.Context, key string) (*redis.Options, error) {
			shard, err := rdb.GetShardClientForKey(key)
			if err != nil {
				return nil, err
			}
			return shard.Options(), nil
		},
		retries: opt.MaxRetries, minPause: opt.MinRetryBackoff, maxPause: opt.MaxRetryBackoff,
	}
}
