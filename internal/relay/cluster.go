package relay

import (
	"context"
	"time"
)

// A Cluster is the other servers that the streams of this one are shared with. Its methods may be called from any
// goroutine.
type Cluster interface {
	// Claim makes this node the owner of the stream of that name, for which a publisher has come. A claim of a stream that
	// this node owns returns the same Lease. An error is a [Refusal]. If it cannot be found out who owns the stream,
	// Claim returns a Lease whose Epoch is 0 until it can.
	Claim(ctx context.Context, name string) (Lease, error)

	// Want says that viewers here want a stream that this node does not own. It does not wait. See [Hub.Wanted].
	Want(name string)

	// Reachable reports whether it can be found out who owns a stream.
	Reachable() bool
}

// A Lease is a node's ownership of a stream.
type Lease interface {
	// Epoch is the number of this ownership: greater than that of every owner before. 0: there is none yet.
	Epoch() uint64

	// Current reports whether this node was the owner a moment ago, as far as it can be known. If it was not, because this
	// process was stopped for longer than a lease lasts, other nodes get nothing until it is.
	Current() bool

	// Heard notes what the publisher is doing: when it sent something last, and whether it is away.
	Heard(last time.Time, away bool)

	// Release gives the stream up. It does not wait.
	Release()
}
