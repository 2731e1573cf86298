package live

import (
	"context"
	"sync/atomic"
	"time"
)

// A claim represents one publisher of a stream. A new claim waits until the registrar grants it the
// stream. The publisher then has the stream until registrar.handOver is called.
type claim struct {
	address string
	ctx     context.Context
	cancel  context.CancelCauseFunc

	granted   chan *stream // receives the stream when granted; has a buffer of one
	since     int64        // time of the grant; see nanotime
	lastInput atomic.Int64 // time of the last input; see nanotime

	lease Lease  // this node's ownership of the stream; nil for a pull, or if there is no cluster
	epoch uint64 // for a pull, the epoch of the stream's owner; otherwise 0

	replaced   bool        // this publisher took over from another one
	reconnects atomic.Bool // the client can be asked to connect again
	leaves     atomic.Bool // the client must be asked to connect again
}

func newClaim(ends context.Context, address string) *claim {
	c := &claim{address: address, granted: make(chan *stream, 1)}
	c.ctx, c.cancel = context.WithCancelCause(ends)
	return c
}

// isPull reports whether the frames come from another node instead of a client of this node.
func (c *claim) isPull() bool { return c.epoch != 0 }

// replace cancels the publisher c with the cause errTakenOver. If c has had the stream for less
// than LeastStay, a timer cancels c later, when LeastStay is over. c must already have the stream.
// The caller must hold Hub.mu.
func (c *claim) replace() {
	end := func() { c.cancel(errTakenOver) }
	if left := LeastStay - time.Duration(nanotime()-c.since); left > 0 {
		time.AfterFunc(left, end)
		return
	}
	end()
}
