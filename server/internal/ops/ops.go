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

// An Observer reports the state of a server, whose parts it reads.
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
	Draining    context.Context // ends requests to other nodes
}

// A Port is where a listener of RTMP is, for the page. The zero value stands for none.
type Port struct {
	Number   int
	Loopback bool // only this machine reaches it
}

// Connections counts the connections of the main listener, without HTTP/1 viewers.
type Connections struct {
	Open    atomic.Int64
	Evicted atomic.Int64 // closed while they waited for a request, for another connection
	Shed    atomic.Int64 // the same, because memory was short
}

// A Cluster reports the state of a node in its cluster.
type Cluster struct {
	node     *cluster.Node
	objects  *cluster.Objects
	segments *cluster.Segments // nil if they do not outlive their node
	others   nodes
}

// NewCluster returns a Cluster for a node, and borrows its arguments. s is nil if segments do not
// outlive their node. secret knows which other nodes have proved themselves.
func NewCluster(n *cluster.Node, o *cluster.Objects, s *cluster.Segments,
	secret *cluster.Secret) *Cluster {
	from := func(node, path string) cluster.Fetch { return o.From(node, path, 0, false) }
	return &Cluster{node: n, objects: o, segments: s,
		others: nodes{peers: n.Peers, from: from, proven: secret.Proven}}
}
