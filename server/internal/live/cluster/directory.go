package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millrace-io/millrace/server/internal/live"
)

// A Directory says which node owns which stream. Its methods may be called from any goroutine, and
// an error other than those below means that it cannot be reached. A further engine is another
// implementation of it.
type Directory interface {
	// Claim makes c.Node the owner of a stream for the time of a lease, and returns the ownership's
	// epoch, which is greater than every one before, also if c.Node owns the stream already. The
	// error is a *TakenError if the stream has another owner that c.Takeover leaves alone.
	Claim(ctx context.Context, c Claim) (epoch uint64, err error)

	// Renew renews the lease of each ownership, and announces that node is alive. errs has one
	// error for each ownership: nil, ErrLost if another node owns the stream or has owned it since,
	// or the reason why the directory cannot be reached. err says why the announcement failed. If
	// the directory has lost its data, the ownership is restored. An ownership with GiveUp set
	// ends, so that other nodes can claim the stream at once. The records of other nodes are never
	// changed.
	Renew(ctx context.Context, node string, owned ...Ownership) (errs []error, err error)

	// Lookup returns the owner of a stream, or ErrNoOwner.
	Lookup(ctx context.Context, stream string) (Owner, error)

	// Watch calls f for each change, until ctx ends. It reconnects when the connection fails, or is
	// silent for a lease. After each connect it calls f with Event{}, because changes before that
	// are lost. f must not block.
	Watch(ctx context.Context, f func(Event))
}

// A Claim describes the ownership that a node wants.
type Claim struct {
	Stream string
	Node   string // the address of the node for other nodes, as in http://10.0.0.5:8080
	Seen   uint64 // the greatest epoch of the stream that the node knows of

	// Takeover says whether the claim wins if another node owns the stream. It always does if the
	// owner's publisher is away.
	Takeover live.Takeover
}

// An Ownership is a claim that a node renews.
type Ownership struct {
	Stream string
	Epoch  uint64
	Silent time.Duration // since the publisher has sent something
	Away   bool          // there is no publisher
	GiveUp bool          // the stream has ended here
}

// An Owner is the node that has a stream's publisher.
type Owner struct {
	Node  string
	Epoch uint64
}

// An Event says that a stream has another owner, or none; or, if Stream is empty, that a node is
// alive.
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
