package chunk

import (
	"context"
	"io"
	"net/http"
	"sync"
	"time"
)

// An alarm ends the Read or Write that a transfer is in when its context ends. It is set when something may have to be
// waited for, because many a transfer is over before that.
type alarm struct {
	ctx context.Context
	to  io.Writer
	of  io.Reader // or nil

	isSet  bool
	unhook func() bool // nil as long as there is nothing that could ring
	hook   func()      // ring, made a function once

	src    waker      // or nil
	dst    writeWaker // or nil
	isBody bool       // dst is a response's

	mu   sync.Mutex
	over bool // stop has come after ring had begun: it is too late to ring; set under mu, by stop alone
}

// A writeWaker is a target in which a Write that hangs can be ended from another goroutine.
type writeWaker interface {
	SetWriteDeadline(t time.Time) error
}

// prepare says what the alarm is for. Without it, set does nothing.
func (a *alarm) prepare(ctx context.Context, dst io.Writer, src io.Reader) {
	a.ctx, a.to, a.of = ctx, dst, src
}

// set may be called again. Both set and stop may be called on a nil alarm. It asks the context no sooner for what tells
// its end, because many make that when they are asked; and not at all if nothing could be woken.
func (a *alarm) set() {
	if a == nil || a.ctx == nil || a.isSet {
		return
	}
	a.isSet = true
	a.find()
	if a.src == nil && a.dst == nil || a.ctx.Done() == nil {
		return
	}
	if a.hook == nil {
		a.hook = a.ring
	}
	a.unhook = context.AfterFunc(a.ctx, a.hook)
}

// find finds what can be woken.
func (a *alarm) find() {
	a.src = wakerOf(a.of)
	w, isBody := a.to.(http.ResponseWriter)
	if !isBody {
		a.dst, _ = a.to.(writeWaker)
		return
	}
	a.isBody = true
	for range maxWrappers { // an http.ResponseController would never come back from one that wraps itself
		if d, ok := w.(writeWaker); ok {
			a.dst = d
			return
		}
		u, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return
		}
		w = u.Unwrap()
	}
}

// ring runs on a goroutine of its own, which may begin when all is over.
func (a *alarm) ring() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over {
		return
	}
	if a.src != nil {
		_ = a.src.SetReadDeadline(longAgo) // what has no deadlines is not woken
	}
	if a.dst != nil {
		_ = a.dst.SetWriteDeadline(longAgo)
	}
}

// stop switches the alarm off, and takes the deadlines away if it has rung. That of a response stays unless the body is
// complete: its connection is lost, and with another deadline net/http could end the body properly.
func (a *alarm) stop(complete bool) {
	if a == nil || a.unhook == nil || a.unhook() {
		return
	}
	a.mu.Lock()
	a.over = true
	a.mu.Unlock()
	if a.src != nil {
		_ = a.src.SetReadDeadline(noDeadline)
	}
	switch {
	case a.dst == nil:
	case a.isBody && !complete:
		_ = a.dst.SetWriteDeadline(longAgo) // ring may not have come to that
	default:
		_ = a.dst.SetWriteDeadline(noDeadline)
	}
}

// mayBeRinging reports, after stop, whether a goroutine of the alarm's had begun, which may be there yet: only then does
// stop set over. It needs no mu, because nobody else sets it, and it is called on stop's goroutine.
func (a *alarm) mayBeRinging() bool { return a.over }
