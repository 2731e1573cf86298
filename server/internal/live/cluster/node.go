package cluster

import (
	"cmp"
	"context"
	"crypto/tls"
	"log/slog"
	"sync"
	"time"

	"github.com/millrace-io/millrace/server/internal/live"
	"github.com/millrace-io/millrace/server/internal/lock"
)

// Config configures a Node.
type Config struct {
	Directory Directory
	Self      string        // this node's address for other nodes, such as http://10.0.0.5:8080
	Secret    *Secret       // authenticates the nodes to each other
	TLS       *tls.Config   // for nodes with an https address; nil: the default configuration
	Dial      live.Dial     // connects to other nodes; nil: live.DialNode
	Lease     time.Duration // the duration of a lease in Directory
	Takeover  live.Takeover
	Log       *slog.Logger
}

// A Node is this server as a member of a cluster. The nodes share their streams through a
// Directory. It implements [live.Cluster].
type Node struct {
	cfg     Config
	ctx     context.Context
	stop    context.CancelFunc
	running sync.WaitGroup

	client *directoryClient
	peers  *peerTable
	owners *ownerTable
	leases *leaseTable
	finder *ownerFinder
	pulls  *puller
}

var _ live.Cluster = (*Node)(nil)

// NewNode returns a Node, which does nothing before Start. The caller must call Close.
func NewNode(cfg Config) *Node {
	cfg.Takeover = cmp.Or(cfg.Takeover, live.TakeoverAlways)
	cfg.Log = lock.Logger(cfg.Log)
	n := &Node{
		cfg:    cfg,
		peers:  &peerTable{secret: cfg.Secret, nodes: make(map[string]int64)},
		owners: &ownerTable{self: cfg.Self, records: make(map[string]*ownerRecord)},
	}
	n.ctx, n.stop = context.WithCancel(context.Background())
	n.client = newDirectoryClient(n.ctx, cfg.Directory, cfg.Lease, cfg.Log)
	n.leases = &leaseTable{
		client: n.client, owners: n.owners, peers: n.peers, self: cfg.Self, takeover: cfg.Takeover,
		news: make(chan struct{}, 1), leases: make(map[string]*lease),
		leaving: make(map[*lease]time.Time),
	}
	n.finder = &ownerFinder{leases: n.leases, owners: n.owners, client: n.client}
	n.pulls = &puller{
		finder: n.finder, owners: n.owners,
		source: live.Owner{Proof: cfg.Secret, TLS: cfg.TLS, Dial: cfg.Dial},
		self:   cfg.Self, leaseTime: cfg.Lease, log: cfg.Log, pulls: make(map[string]bool),
	}
	n.pulls.ctx, n.pulls.stop = context.WithCancel(n.ctx)
	return n
}

// Start makes the node work until Close. The node renews its leases, watches the events of other
// nodes, and reads the streams that hub wants from other nodes.
func (n *Node) Start(hub Hub) {
	n.leases.hub, n.pulls.hub = hub, hub
	n.running.Go(n.leases.renew)
	n.running.Go(func() { n.cfg.Directory.Watch(n.ctx, n.handleEvent) })
}

// Drain makes the node refuse publishers from now on. Other nodes may take the streams that this
// node owns, even with live.TakeoverNever.
func (n *Node) Drain() {
	n.leases.drain()
	if n.Reachable() {
		n.leases.renewOnce(n.ctx, true)
	}
}

// Close ends the goroutines of n, stops reading streams from other nodes, and releases all leases
// of n.
func (n *Node) Close() {
	n.leases.drain()
	n.stop()
	n.pulls.close()
	n.running.Wait()
	n.leases.releaseAll()
}

// Claim makes this node the owner of a stream; see [live.Cluster].
func (n *Node) Claim(ctx context.Context, name string) (live.Lease, error) {
	return n.leases.claim(ctx, name)
}

// Want makes this node read a stream from its owner while viewers here want it; see [live.Cluster].
func (n *Node) Want(name string) { n.pulls.startPull(name) }

// IsElsewhere reports whether another node is known to own a stream; see [live.Cluster].
func (n *Node) IsElsewhere(ctx context.Context, name string) bool {
	o, err := n.finder.Owner(ctx, name)
	return err == nil && o.Node != n.cfg.Self
}

// Reachable reports whether the owner of a stream can be determined; see [live.Cluster].
func (n *Node) Reachable() bool { return n.client.Reachable() }

// Owner returns the owner of a stream, or ErrNoOwner. See [ownerFinder.Owner].
func (n *Node) Owner(ctx context.Context, name string) (Owner, error) {
	return n.finder.Owner(ctx, name)
}

// NoteEpoch records that another node knows an ownership of a stream with the given epoch. If this
// node owns the stream with a lower epoch, it gives up the stream.
//
// This happens if the cluster's directory has lost its data. This node may then have restored an
// ownership that had ended before, which it did not know.
func (n *Node) NoteEpoch(name string, epoch uint64) { n.leases.noteEpoch(name, epoch) }

// Peers returns the addresses of the other nodes that are alive.
func (n *Node) Peers() []string { return n.peers.list() }

func (n *Node) handleEvent(e Event) {
	switch {
	case e == Event{}:
		// First, because the owners are not looked up again while the directory is unreachable.
		n.client.setReachable(true)
		n.owners.noteMissed()
	case e.Stream == "":
		if e.Owner.Node != n.cfg.Self {
			n.peers.markAlive(e.Owner.Node)
		}
	case e.Owner.Epoch == 0:
		n.owners.ownerReleased(e.Stream, e.Owner.Node)
	default:
		n.leases.setOwner(e.Stream, e.Owner, time.Time{})
	}
}

// Stats has a Node's state and its counters.
type Stats struct {
	Reachable bool  // the directory answers
	Nodes     int   // nodes that are alive, including this one
	Owned     int   // streams that this node owns
	Pulled    int   // streams that this node pulls from other nodes
	Claims    int64 // claims of this node that the directory granted
	Refused   int64 // claims that the directory refused, because the stream has another owner
	Lost      int64 // streams that another node has taken from this node
	Failures  int64 // renewals that the directory did not answer
	Lookups   int64 // lookups of owners in the directory
}

// Stats returns a snapshot of n.
func (n *Node) Stats() Stats {
	return Stats{
		Reachable: n.Reachable(),
		Nodes:     1 + n.peers.count(),
		Owned:     n.leases.size(),
		Pulled:    n.pulls.count(),
		Claims:    n.leases.claims.Load(),
		Refused:   n.leases.refused.Load(),
		Lost:      n.leases.lost.Load(),
		Failures:  n.leases.failures.Load(),
		Lookups:   n.finder.asked.Load(),
	}
}
