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
	ctx    context.Context
	unhook func() bool    // nil as long as it is not set
	rings  sync.WaitGroup // until ring is over

	src    waker      // or nil
	dst    writeWaker // or nil
	isBody bool       // dst is a response's
}

// A writeWaker is a target in which a Write that hangs can be ended from another goroutine.
type writeWaker interface {
	SetWriteDeadline(t time.Time) error
}

// prepare says what the alarm is for. Without it, set does nothing.
func (a *alarm) prepare(ctx context.Context, dst io.Writer, src io.Reader) {
	if ctx.Done() == nil {
		return
	}
	a.ctx, a.src = ctx, wakerOf(src)
	w, isBody := dst.(http.ResponseWriter)
	if !isBody {
		a.dst, _ = dst.(writeWaker)
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

// set may be called again. Both set and stop may be called on a nil alarm.
func (a *alarm) set() {
	if a == nil || a.ctx == nil || a.unhook != nil {
		return
	}
	a.rings.Add(1)
	a.unhook = context.AfterFunc(a.ctx, a.ring)
}

func (a *alarm) ring() {
	defer a.rings.Done()
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
	a.rings.Wait()
	if a.src != nil {
		_ = a.src.SetReadDeadline(noDeadline)
	}
	if a.dst != nil && (complete || !a.isBody) {
		_ = a.dst.SetWriteDeadline(noDeadline)
	}
}
