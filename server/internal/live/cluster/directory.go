package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millrace-io/millrace/server/internal/live"
)

// A Directory says which node owns which stream. Its methods may be called from any goroutine, and an error other than
// those below means that it cannot be reached. A further engine is another implementation of it.
type Directory interface {
	// Claim makes c.Node the owner of a stream for the time of a lease, and returns the ownership's epoch, which is
	// greater than every one before, also if c.Node owns the stream already. The error is a *TakenError if the stream has
	// another owner that c.Takeover leaves alone.
	Claim(ctx context.Context, c Claim) (epoch uint64, err error)

	// Renew begins the lease of each ownership anew, and tells the nodes that watch that node is alive. The errors are one
	// for each ownership: nil, or ErrLost if another node owns the stream or has owned it since, or why the directory
	// cannot be reached; err says why the other nodes could not be told. An ownership that the directory knows nothing of,
	// because it has lost its data, is restored. With GiveUp set an ownership ends for good, so that other nodes can claim
	// the stream at once. What belongs to another node is never changed.
	Renew(ctx context.Context, node string, owned ...Ownership) (errs []error, err error)

	// Lookup returns the owner of a stream, or ErrNoOwner.
	Lookup(ctx context.Context, stream string) (Owner, error)

	// Watch calls f for what changes, until ctx ends. It connects again when the connection fails, or is silent for a lease,
	// and calls f with Event{} whenever it has connected: what happened before is not told. f must not wait.
	Watch(ctx context.Context, f func(Event))
}

// A Claim is what a node wants to own.
type Claim struct {
	Stream string
	Node   string // the address of the node for other nodes, as in http://10.0.0.5:8080
	Seen   uint64 // the greatest epoch of the stream that the node knows of

	// Takeover says whether the claim wins if another node owns the stream. It always does if the owner's publisher is away.
	Takeover live.Takeover
}

// An Ownership is what a node renews.
type Ownership struct {
	Stream string
	Epoch  uint64
	Silent time.Duration // since the publisher has sent something
	Away   bool          // there is no publisher at present
	GiveUp bool          // the stream has ended here
}

// An Owner is the node that has a stream's publisher.
type Owner struct {
	Node  string
	Epoch uint64
}

// An Event says that a stream has another owner, or none; or, if Stream is empty, that a node is alive.
type Event struct {
	Stream string
	Owner  Owner // Owner.Epoch is 0 if the stream has no owner any more: Owner.Node gave it up
}

var (
	// ErrNoOwner says that no node owns a stream.
	ErrNoOwner = errors.New("no node has this stream")
	// ErrLost says that another node owns a stream.
	ErrLost = errors.New("another node has this stream")
)

// A TakenError says that a stream has an owner that a claim leaves alone.
type TakenError struct{ Owner Owner }

func (e *TakenError) Error() string {
	return fmt.Sprintf("the stream has a publisher at %s", e.Owner.Node)
}
