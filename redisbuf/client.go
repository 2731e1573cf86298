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

// A Client moves large values between Redis and the caller's memory, over separate connections.
// Everything else stays with the go-redis client that it was made from, whose addresses,
// credentials and topology it uses.
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
// client name, timeouts, the lifetime of connections and retries come from rdb's options. Hooks,
// OnConnect and Limiter are not called, and replicas are not read. (A NewFailoverClusterClient
// chooses its database in an OnConnect: use database 0 with it.) The deadline of a context ends a
// call even without ContextTimeoutEnabled. Only a cluster's calls follow MOVED and ASK.
//
// While there are connections to a Sentinel's master, the Client makes another one each second by
// rdb's Dialer, which asks the Sentinel. If it leads to a new master, no call starts on the old
// connections any more. If it cannot be made, nothing changes.
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

// Close closes the connections. Calls that are under way end with an error; calls that wait for
// others, or begin later, end with ErrClosed. It waits until no Dialer or credentials provider runs
// in the background.
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
	for _, n := range c.nodes { // closed keeps it from changing
		n.close()
	}
	return nil
}

// servers are the servers of a Client, and the state that all calls share.
type servers struct {
	settings settings
	router   router
	inFlight *limiter     // bytes
	lastLen  atomic.Int64 // length of the last value of unknown length
	counters counters

	mu sync.RWMutex
	// All servers that were ever asked, len ≤ maxServers; one that has left has no connections.
	nodes  map[serverKey]*node
	closed bool

	closing    context.Context // ends when Close begins
	stop       context.CancelFunc
	background sync.WaitGroup // goroutines that end with closing
}

// maxServers bounds the servers that redirections name in the life of a Client. A cluster has no
// more masters than slots.
const maxServers = 16384

// A serverKey identifies a server: by its address in a cluster, and otherwise by its Options.
// Shards of a Ring may have one address and differ in anything else, such as the Dialer.
//
// One of the fields is set.
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

// nodeOf returns the node of the server that has key.
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

// closeExpired closes connections that were idle for too long or are too old, until closing ends.
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

// sleep waits for d. It returns the context's error if that ends meanwhile, and ErrClosed if the
// Client is closed.
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

// A router knows which server has a key. It leaves that to a go-redis client.
type router struct {
	one *redis.Options // of the only server; nil if there may be several

	// route returns the options of the server that has key. The caller does not change them.
	route func(ctx context.Context, key string) (*redis.Options, error)

	// reload is called when a server said that it does not have a key, or was lost. It is nil if
	// that changes nothing.
	reload func(ctx context.Context)

	// A server may send a call to another one, which gets the credentials.
	redirects          bool
	retries            int           // how often a call may be tried again
	minPause, maxPause time.Duration // bounds of the pause before that
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

// keyOfSlot0 is a key in slot 0, as the empty key is. go-redis takes an empty key for no key, which
// any server may get.
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
