package live

import (
	"context"
	"sync/atomic"
	"time"
)

// A claim is a publisher as its stream sees it: who sends, since when, and how to end it. The claim
// waits until it is granted, and then the stream is its publisher's until registrar.handOver.
type claim struct {
	address string
	ctx     context.Context
	cancel  context.CancelCauseFunc

	granted   chan *stream // gets the stream once, when it is this publisher's; has room for it
	since     int64        // when that was; see now
	lastInput atomic.Int64 // when something came last; see now

	lease Lease  // of a stream that this node owns; nil for a pull, and when the server is alone
	epoch uint64 // of a pull: that of its owner; otherwise 0

	replaced   bool        // it took over from another publisher
	reconnects atomic.Bool // the client connects again when it is asked to
	leaves     atomic.Bool // it is to be asked
}

func newClaim(ends context.Context, address string) *claim {
	c := &claim{address: address, granted: make(chan *stream, 1)}
	c.ctx, c.cancel = context.WithCancelCause(ends)
	return c
}

// isPull reports whether the frames come from another node, and not from a client of this one.
func (c *claim) isPull() bool { return c.epoch != 0 }

// replace ends c, which has a stream, as soon as it has had it for LeastStay. Hub.mu is held.
func (c *claim) replace() {
	end := func() { c.cancel(errTakenOver) }
	if left := LeastStay - time.Duration(now()-c.since); left > 0 {
		time.AfterFunc(left, end)
		return
	}
	end()
}
