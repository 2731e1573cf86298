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
// uses the addresses, credentials and topology of the go-redis client that it was made from. That
// client continues to do everything else.
//
// All methods may be called from any goroutine.
type Client struct {
	*servers
	sticky *stickyConn // the connection for all calls; nil if each call takes one from a pool
}

// New returns a Client for the servers of rdb, which is a *redis.Client (of a server, or of a
// Sentinel's master), a *redis.ClusterClient or a *redis.Ring of such clients. It borrows rdb,
// which must stay open for as long as the Client is used. Close closes the Client's own
// connections.
//
// Network, address, Dialer, TLS, credentials (read for each new connection), database, protocol,
// client name, timeouts, the lifetime of connections and retries come from rdb's options. The
// Client does not call Hooks, OnConnect and Limiter, and does not read from replicas. (A
// NewFailoverClusterClient chooses its database in an OnConnect: use database 0 with it.) The
// deadline of a context ends a call even without ContextTimeoutEnabled. Only a cluster's calls
// follow MOVED and ASK.
//
// While there are connections to a Sentinel's master, the Client makes a further connection each
// second with rdb's Dialer. The Dialer queries the Sentinel. If the further connection leads to a
// new master, no call starts on the old connections any more. If it cannot be made, nothing
// changes.
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

// Close closes the connections. Running calls end with an error. Calls that are waiting for others,
// and calls that begin later, end with ErrClosed. Close waits until no Dialer or credentials
// provider runs in the background.
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

// servers is the set of servers of a Client, and the state that all calls share.
type servers struct {
	settings settings
	router   router
	inFlight *limiter     // limiter of bytes in flight
	lastLen  atomic.Int64 // length of the last value whose length was not known in advance
	counters counters

	mu sync.RWMutex
	// All servers that were ever used, at most maxServers. A server that has left the topology has
	// no connections.
	nodes  map[serverKey]*node
	closed bool

	closing    context.Context // a context that ends when Close begins
	stop       context.CancelFunc
	background sync.WaitGroup // goroutines that end when closing ends
}

// maxServers limits how many servers redirections can add in the life of a Client. A cluster has no
// more masters than slots.
const maxServers = 16384

// A serverKey identifies a server. In a cluster, that is the server's address. Elsewhere it is the
// server's Options, because shards of a Ring may have the same address and differ in any other
// option, such as the Dialer.
//
// Exactly one of the fields is set.
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

// nodeOf returns the node of the server that holds key.
func (s *servers) nodeOf(ctx context.Context, key string) (*node, error) {
	opt, err := s.router.route(ctx, key)
	if err != nil {
		return nil, err
	}
	return s.node(opt)
}

// node returns the node of the server with these options.
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

// expiryInterval is how often idle connections are checked for their age.
const expiryInterval = 30 * time.Second

// closeExpired closes connections that have been idle for too long or are too old. It runs until
// closing ends.
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

// sleep waits for d. It returns the context's error if the context ends meanwhile, and ErrClosed if
// the Client is closed.
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

	// reload reloads the topology. It is called when a server was lost, or has reported that it
	// does not hold a key. It is nil if there is nothing to reload.
	reload func(ctx context.Context)

	// Whether a server may redirect a call to another server. The credentials are then sent to that
	// server.
	redirects          bool
	retries            int           // maximum number of further tries of a call
	minPause, maxPause time.Duration // limits of the pause before a further try
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

// routerOfOne returns the router of one server, or of a Sentinel's master.
func routerOfOne(opt *redis.Options) router {
	return router{
		one:     opt,
		route:   func(context.Context, string) (*redis.Options, error) { return opt, nil },
		retries: opt.MaxRetries, minPause: opt.MinRetryBackoff, maxPause: opt.MaxRetryBackoff,
	}
}

// keyOfSlot0 is a key in slot 0, which is also the slot of the empty key. It stands for the empty
// key, because go-redis treats an empty key as no key and may then choose any server.
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
