package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millrace-io/millrace/server/internal/live"
)

// A Directory records which node owns which stream. Its methods may be called from any goroutine.
// An error other than the errors below means that the directory cannot be reached.
type Directory interface {
	// Claim makes c.Node the owner of a stream for the duration of a lease, and returns the epoch
	// of the ownership. The epoch is greater than every earlier epoch, even if c.Node already owns
	// the stream. If another node owns the stream, and c.Takeover does not allow the claim to
	// replace that node, the error is a *TakenError.
	//
	// A claim may be repeated if its result is not known. If the claim was granted before, Claim
	// returns the same epoch again, and changes nothing.
	Claim(ctx context.Context, c Claim) (epoch uint64, err error)

	// Renew renews the lease of each ownership in owned, and announces that the calling node is
	// alive. The parameter node is the address of the calling node.
	//   - If Ownership.GiveUp is set, Renew ends the ownership instead, so that other nodes can
	//     claim the stream at once.
	//   - If the directory has lost its data, Renew restores the ownership.
	//   - Renew never changes the records of other nodes.
	//
	// errs has one element for each ownership. The element is nil if Renew has succeeded. It is
	// ErrLost if another node owns the stream, or has owned it since. Any other error means that
	// the directory cannot be reached. err is the error of the announcement.
	Renew(ctx context.Context, node string, owned ...Ownership) (errs []error, err error)

	// Lookup returns the owner of a stream, or ErrNoOwner.
	Lookup(ctx context.Context, stream string) (Owner, error)

	// Watch calls the function f for each event, until ctx ends. f must not block. If the
	// connection fails, or is silent for the duration of a lease, Watch reconnects. After each
	// connect it calls f with Event{}, because events may have been missed.
	Watch(ctx context.Context, f func(Event))
}

// A Claim is a node's request to become the owner of a stream.
type Claim struct {
	Stream string
	Node   string // the address of the node for other nodes, for example http://10.0.0.5:8080
	ID     string // random; a repeated claim has the same ID; empty: the claim is not repeated
	Seen   uint64 // the greatest epoch of the stream that the node knows

	// Takeover says whether the claim replaces another node that owns the stream. If the owner's
	// publisher is away, the claim replaces the owner in any case.
	Takeover live.Takeover
}

// An Ownership describes a stream that a node owns. The node passes it to Directory.Renew, which
// renews the lease, or ends the ownership if GiveUp is set.
type Ownership struct {
	Stream string
	Epoch  uint64
	Silent time.Duration // time since the publisher last sent something
	Away   bool          // the stream has no publisher at present
	GiveUp bool          // the stream has ended at this node
}

// An Owner is the node that has a stream's publisher.
type Owner struct {
	Node  string
	Epoch uint64
}

// An Event announces that a new node owns a stream, or that no node owns the stream. If Stream is
// empty, the Event announces that a node is alive.
type Event struct {
	Stream string
	Owner  Owner // if Owner.Epoch is 0, Owner.Node has given up the stream, which has no owner
}

var (
	// ErrNoOwner means that no node owns a stream.
	ErrNoOwner = errors.New("no node has this stream")
	// ErrLost means that another node owns a stream.
	ErrLost = errors.New("another node has this stream")
)

// A TakenError means that a claim of a stream has failed: another node owns the stream, and
// Claim.Takeover does not allow the claim to replace that owner.
type TakenError struct{ Owner Owner }

func (e *TakenError) Error() string {
	return fmt.Sprintf("the stream has a publisher at %s", e.Owner.Node)
}
