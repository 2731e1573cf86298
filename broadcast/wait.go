package broadcast

import (
	"context"
	"io"
)

// notWaiting is the index of a Cursor or a Watcher that is on no list.
const notWaiting = -1

// ready reports whether Wait has nothing to wait for: an announced frame can be
// taken, or the end is there. r.mu is held.
func (c *Cursor) ready() bool {
	return c.closed || c.ring.closed || c.canRead(c.ring.announced)
}

// Wait returns nil when Take has something to give, io.EOF when the ring is
// closed and drained, ErrClosed when the cursor is closed, and ctx's error when
// ctx ends, whichever comes first. Close of the ring or of the cursor, from any
// goroutine, ends it at once.
//
// Wait sees a frame only once it is announced, up to [Latency] later; Take sees
// it at once.
//
// It starts no goroutine. Only one Wait on a cursor at a time may be under way;
// a second one panics.
func (c *Cursor) Wait(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for again := false; ; again = true {
		done, err := c.enlist(again)
		if done {
			return err
		}
		select {
		case <-c.woken:
		case <-ctx.Done():
			c.delist()
			return ctx.Err()
		}
	}
}

// enlist puts c on the waiting list, or reports that there is no need to wait.
// When it is called again, c may still be there: a signal can come late, from an
// announcement whose frames an earlier Wait has seen already.
func (c *Cursor) enlist(again bool) (done bool, err error) {
	r := c.ring
	r.mu.Lock()
	defer r.mu.Unlock()
	listed := c.waitIndex != notWaiting
	if listed && !again {
		panic("broadcast: Wait on a cursor that is already waiting on another goroutine")
	}
	if c.ready() {
		if listed {
			c.unlist()
		}
		switch {
		case c.closed:
			return true, ErrClosed
		case r.closed && c.drained():
			return true, io.EOF
		}
		return true, nil
	}
	if listed {
		return false, nil
	}
	c.waitIndex = len(r.waiting)
	r.waiting = append(r.waiting, c)
	if r.wakers == 0 && cap(r.waking) < cap(r.waiting) {
		// Made here, so that Publish need not.
		r.waking = make([]*Cursor, 0, cap(r.waiting))
	}
	return false, nil
}

// delist takes c off the waiting list if it is still there. A signal that is on
// its way, or in c.woken, makes the next Wait look again and do no more.
func (c *Cursor) delist() {
	c.ring.mu.Lock()
	defer c.ring.mu.Unlock()
	if c.waitIndex != notWaiting {
		c.unlist()
	}
}

// unlist takes c off the waiting list, where it is. r.mu is held.
func (c *Cursor) unlist() {
	r := c.ring
	last := len(r.waiting) - 1
	r.waiting[c.waitIndex] = r.waiting[last]
	r.waiting[c.waitIndex].waitIndex = c.waitIndex
	r.waiting[last] = nil
	r.waiting = r.waiting[:last]
	c.waitIndex = notWaiting
}

// signal ends the wait in Wait.
func (c *Cursor) signal() {
	select {
	case c.woken <- struct{}{}:
	default: // a signal of an earlier wait is still there, and does as well
	}
}
