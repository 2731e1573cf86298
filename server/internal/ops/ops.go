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
	"github.com/millrace-io/millrace/server/internal/live/push"
	"github.com/millrace-io/millrace/server/internal/live/record"
	"github.com/millrace-io/millrace/server/internal/rtmp"
	"github.com/millrace-io/millrace/server/internal/store"
)

// An Observer reports the state of a server. Its fields are parts of the server, which it reads but
// never changes.
type Observer struct {
	Version string
	Self    string // address of this node; "" without a cluster
	Started time.Time
	Log     *slog.Logger

	Hub         *live.Hub
	Acceptor    *rtmp.Acceptor
	Gate        *access.Gate // gate of the main listener
	Refusals    *access.Refusals
	Budget      *answer.Budget
	Connections *Connections
	Addresses   *address.Table // accounts of client addresses
	RTMP, RTMPS Port
	Files       *store.Files    // nil if no files are served
	Blobs       *store.Blobs    // nil if there is no blob store
	Records     *record.Archive // nil if nothing is recorded
	Push        *push.Pusher
	Hook        *hook.Client    // nil if there is no hook
	Cluster     *Cluster        // nil without a cluster
	Draining    context.Context // when it ends, requests to other nodes are canceled
}

// A Port describes an RTMP listener. The zero value means that there is no listener.
type Port struct {
	Number   int
	Loopback bool // whether only this machine can reach the listener
}

// Connections counts the connections of the main listener, except HTTP/1 viewers.
type Connections struct {
	Open    atomic.Int64
	Evicted atomic.Int64 // idle connections closed to make room for new ones
	Shed    atomic.Int64 // idle connections closed because memory was short
}

// A Cluster reports the state of this node and of the other nodes in its cluster.
type Cluster struct {
	node     *cluster.Node
	objects  *cluster.Objects
	segments *cluster.Segments // nil if only the node stores its segments
	others   nodes
}

// NewCluster returns a Cluster for the node n. If HLS segments are stored only on the node, s must
// be nil. The Secret records which nodes have proved that they know the cluster's token. NewCluster
// borrows its arguments.
func NewCluster(n *cluster.Node, o *cluster.Objects, s *cluster.Segments,
	secret *cluster.Secret) *Cluster {
	from := func(node, path string) cluster.Fetch { return o.From(node, path, 0, false) }
	return &Cluster{node: n, objects: o, segments: s,
		others: nodes{peers: n.Peers, from: from, proven: secret.Proven}}
}
