package cluster

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace/server/internal/lock"
	"github.com/millrace-io/millrace/server/internal/outage"
	"github.com/millrace-io/millrace/server/internal/relay"
	"golang.org/x/sync/singleflight"
)

// Config is what can be chosen about a Node.
type Config struct {
	Directory Directory
	Self      string        // the address of this node for other nodes, as in http://10.0.0.5:8080
	Secret    *Secret       // which the nodes prove to know
	TLS       *tls.Config   // how other nodes are verified; nil: by the system's authorities
	Lease     time.Duration // as long as those of Directory
	Takeover  relay.Takeover
	Log       *slog.Logger
}

// A Hub is what a Node asks of [relay.Peers], whose documentation says what the methods do. They are called while no lock
// of the Node is held, and may call it.
type Hub interface {
	Lost(name string, epoch uint64)
	Silent(name string) (silent time.Duration, away bool)
	Wanted(name string) bool
	Pull(ctx context.Context, name string, from relay.Source) error
}

var _ Hub = relay.Peers{}

// attempts is how many times in a lease its renewal begins.
const attempts = 3

// attemptTime bounds a call of the directory. In the worst case one attempt was made just before the directory stopped to
// answer, two fail, one of which was between the others, and the time until the second has failed is 10/12 of a lease.
func attemptTime(lease time.Duration) time.Duration { return lease / 4 }

// peerRounds is for how many rounds a node that is not heard is taken for alive: three leases.
const peerRounds = 3 * attempts

const (
	// maxPeers bounds the list of nodes, all of which a page asks.
	maxPeers = 256
	// maxUnproven bounds those that have not proved to be nodes: anyone who may publish in Redis can invent some.
	maxUnproven = 32
)

// maxAsking bounds the claims and lookups under way. There are fewer than connections to Redis, so that renewals need not wait
// for one, and the time of a call is the directory's.
const maxAsking = 8

// errBusy says that the directory was not asked.
var errBusy = errors.New("too many questions to the cluster's directory at a time")

// A Node is this server among those that share their streams through a Directory. It implements [relay.Cluster].
type Node struct {
	cfg     Config
	hub     Hub // set before the goroutines start
	ctx     context.Context
	stop    context.CancelFunc // under mu
	running sync.WaitGroup
	news    chan struct{} // has an element if a lease was released, or has changed
	asking  chan struct{} // has an element for each call of ask that is under way
	lookups singleflight.Group

	reachable atomic.Bool // what the last call of the directory has shown
	asked     atomic.Bool // there was a call
	outage    outage.Outage
	counters  struct{ claims, refused, lost, failures, lookups atomic.Int64 }

	// What is held under mu is for a moment only, and calls nothing outside of the package.
	mu       lock.Mutex
	draining bool
	leases   map[string]*lease       // that are held, or being claimed
	leaving  map[*lease]time.Time    // those that are released, and since when, until the directory knows
	owners   map[string]*ownerRecord // at most maxOwners
	pulls    map[string]bool         // what viewers here want, and whether it is pulled at present

	round int64            // counts renewals before which the directory was reachable: peers do not age while it is not
	peers map[string]int64 // the round in which each was heard last; at most maxPeers
}

var _ relay.Cluster = (*Node)(nil)

// New returns a Node that does nothing by itself before Start. Close ends it.
func New(cfg Config) *Node {
	cfg.Takeover = cmp.Or(cfg.Takeover, relay.TakeoverAlways)
	cfg.Log = lock.Logger(cfg.Log)
	n := &Node{
		cfg:     cfg,
		news:    make(chan struct{}, 1),
		asking:  make(chan struct{}, maxAsking),
		leases:  make(map[string]*lease),
		leaving: make(map[*lease]time.Time),
		owners:  make(map[string]*ownerRecord),
		pulls:   make(map[string]bool),
		peers:   make(map[string]int64),
	}
	n.ctx, n.stop = context.WithCancel(context.Background())
	return n
}

// Start renews what is claimed, hears of other nodes, and pulls what hub wants, until Close.
func (n *Node) Start(hub Hub) {
	n.hub = hub
	n.running.Go(n.renew)
	n.running.Go(func() { n.cfg.Directory.Watch(n.ctx, n.heard) })
}

// Drain refuses publishers from now on, and lets other nodes have the streams that this one owns, also under relay.TakeoverNever.
func (n *Node) Drain() {
	n.mu.Lock()
	n.draining = true
	n.mu.Unlock()
	if n.Reachable() {
		n.attempt(n.ctx, true)
	}
}

// Close ends the goroutines, and the pulls, and gives up what this node still owns.
func (n *Node) Close() {
	n.mu.Lock()
	n.draining = true
	n.stop()
	n.mu.Unlock()
	n.running.Wait()
	n.mu.Lock()
	for _, l := range n.leases {
		n.leave(l)
	}
	n.mu.Unlock()
	n.attempt(context.Background(), false)
}

// Reachable implements [relay.Cluster].
func (n *Node) Reachable() bool { return n.reachable.Load() }

// call returns the context of one call of the directory.
func (n *Node) call(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, attemptTime(n.cfg.Lease))
}

// ask makes one call of the directory, of those of which there may be many at once. An error of its own says that there are
// too many, which tells nothing of the directory.
func (n *Node) ask(call func(ctx context.Context) error) error {
	wait, cancel := n.call(n.ctx)
	defer cancel()
	select {
	case n.asking <- struct{}{}:
		defer func() { <-n.asking }()
	case <-wait.Done():
		return errBusy
	}
	ctx, cancel := n.call(n.ctx)
	defer cancel()
	return call(ctx)
}

// answered takes the error of a call of the directory. It reports whether there was an answer.
func (n *Node) answered(err error) bool {
	_, taken := errors.AsType[*TakenError](err)
	ok := err == nil || taken || errors.Is(err, ErrNoOwner) || errors.Is(err, ErrLost)
	if n.ctx.Err() != nil {
		return ok
	}
	first := !n.asked.Swap(true)
	n.reachable.Store(ok)
	if ok {
		err = nil
	}
	switch news := n.outage.Note(err); {
	case ok && (first || news):
		n.cfg.Log.Info("the cluster's directory answers")
	case news:
		n.cfg.Log.Warn("the cluster's directory does not answer", "err", err)
	}
	return ok
}

// heard is told what happens in the cluster.
func (n *Node) heard(e Event) {
	switch {
	case e == Event{}:
		n.missed()
	case e.Stream == "":
		if e.Owner.Node != n.cfg.Self {
			n.heardPeer(e.Owner.Node)
		}
	case e.Owner.Epoch == 0:
		n.gaveUp(e.Stream, e.Owner.Node)
	default:
		n.learn(e.Stream, e.Owner, time.Time{})
	}
}

// heardPeer notes that a node says to be alive. One that has not proved to be a node gives way to a new one if there are
// too many of such.
func (n *Node) heardPeer(node string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, known := n.peers[node]; !known {
		unproven, last := 0, ""
		for peer := range n.peers {
			if !n.cfg.Secret.Proven(peer) {
				unproven, last = unproven+1, peer
			}
		}
		switch {
		case unproven >= maxUnproven:
			delete(n.peers, last)
		case len(n.peers) >= maxPeers:
			return
		}
	}
	n.peers[node] = n.round
}

// nextRound forgets the nodes that are gone.
func (n *Node) nextRound() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.Reachable() {
		n.round++
		maps.DeleteFunc(n.peers, func(_ string, heard int64) bool { return n.round-heard > peerRounds })
	}
}

// Peers returns the addresses of the other nodes that are alive.
func (n *Node) Peers() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Sorted(maps.Keys(n.peers))
}

// Stats is a Node's state and what it has counted.
type Stats struct {
	Reachable bool  // whether the directory answers
	Nodes     int   // that are alive, this one included
	Owned     int   // streams that are this node's
	Pulled    int   // streams that are pulled from other nodes
	Claims    int64 // streams that this node was given
	Refused   int64 // streams that it was not given, because they have another owner
	Lost      int64 // streams that another node has taken
	Failures  int64 // renewals that got no answer
	Lookups   int64 // questions to the directory who owns a stream
}

// Stats returns a snapshot.
func (n *Node) Stats() Stats {
	s := Stats{
		Reachable: n.Reachable(),
		Claims:    n.counters.claims.Load(),
		Refused:   n.counters.refused.Load(),
		Lost:      n.counters.lost.Load(),
		Failures:  n.counters.failures.Load(),
		Lookups:   n.counters.lookups.Load(),
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	s.Nodes, s.Owned = 1+len(n.peers), len(n.leases)
	for _, pulled := range n.pulls {
		if pulled {
			s.Pulled++
		}
	}
	return s
}
