package ops

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace/server/internal/access"
	"github.com/millrace-io/millrace/server/internal/answer"
	"github.com/millrace-io/millrace/server/internal/conn/address"
	"github.com/millrace-io/millrace/server/internal/hook"
	"github.com/millrace-io/millrace/server/internal/live"
	"github.com/millrace-io/millrace/server/internal/live/cluster"
	"github.com/millrace-io/millrace/server/internal/live/record"
	"github.com/millrace-io/millrace/server/internal/rtmp"
	"github.com/millrace-io/millrace/server/internal/store"
)

// An Observer tells of a server, whose parts it reads.
type Observer struct {
	Version string
	Self    string // the server's address for the other nodes of its cluster, or ""
	Started time.Time
	Log     *slog.Logger

	Hub         *live.Hub
	Acceptor    *rtmp.Acceptor
	Gate        *access.Gate // of the main listener
	Refusals    *access.Refusals
	Budget      *answer.Budget
	Connections *Connections
	Addresses   *address.Table // that are limited
	RTMP, RTMPS Port
	Files       *store.Files    // nil if no files are served
	Blobs       *store.Blobs    // nil if no blobs are kept
	Records     *record.Archive // nil if no streams are recorded
	Hook        *hook.Client    // nil if none is asked
	Cluster     *Cluster        // nil if the server is alone
	Draining    context.Context // ends what asks other nodes
}

// A Port is where a listener of RTMP is, for the page. The zero value stands for none.
type Port struct {
	Number   int
	Loopback bool // only this machine reaches it
}

// Connections counts those of the main listener, apart from viewers by HTTP/1.
type Connections struct {
	Open    atomic.Int64
	Evicted atomic.Int64 // closed while they waited for a request, for another connection
	Shed    atomic.Int64 // the same, because memory was short
}

// A Cluster tells of a node among others.
type Cluster struct {
	node     *cluster.Node
	objects  *cluster.Objects
	segments *cluster.Segments // nil if they do not outlive their node
	others   nodes
}

// NewCluster returns what tells of a node, and borrows all. s is nil if segments do not outlive their node. secret says
// which others have proven to be nodes.
func NewCluster(n *cluster.Node, o *cluster.Objects, s *cluster.Segments, secret *cluster.Secret) *Cluster {
	from := func(node, path string) cluster.Fetch { return o.From(node, path, 0, false) }
	return &Cluster{node: n, objects: o, segments: s, others: nodes{peers: n.Peers, from: from, proven: secret.Proven}}
}
