package redisbuf

import (
	"context"
	"net"
	"sync"
	"time"
)

// An ioDeadline applies a timeout to the reads, or to the writes, of a connection. It rarely moves
// the deadline, because that costs nearly as much as a short read.
type ioDeadline struct {
	set     func(time.Time) error // sets the read or the write deadline of the connection
	watcher *watcher              // also sets deadlines, when the context ends
	timeout time.Duration         // 0 or less for no timeout
	until   time.Time             // zero if no deadline is set
}

// renew moves the deadline so that the next read or write has at least d.timeout. It must be called
// before each read or write. If the context has ended, renew returns the context's error.
func (d *ioDeadline) renew() error {
	if d.timeout > 0 {
		if now := time.Now(); d.until.Sub(now) < d.timeout {
			d.until = now.Add(d.timeout + d.timeout/4)
			if err := d.set(d.until); err != nil {
				return err
			}
		}
	}
	return d.watcher.err()
}

// clear removes the deadline. A read or write may then wait until the context ends. If the context
// has already ended, clear returns the context's error.
func (d *ioDeadline) clear() error {
	if d.timeout > 0 {
		d.until = time.Time{}
		if err := d.set(d.until); err != nil {
			return err
		}
	}
	return d.watcher.err()
}

// longAgo is a deadline in the past, which ends reads and writes at once.
var longAgo = time.Unix(1, 0)

// A watcher ends the reads and writes of a connection when the context of the current call ends. It
// stays registered between two calls with the same context, which saves an allocation.
type watcher struct {
	conn       net.Conn
	ctx        context.Context // context of the current call; nil if it cannot be cancelled
	last       <-chan struct{} // the Done channel of the last context that can be cancelled
	repeated   bool            // the last two calls used the same context
	unregister func() bool     // unregisters from the last context; nil if not registered

	mu      sync.Mutex
	calling <-chan struct{} // ctx.Done() during a call, and nil between calls
	dst     writeWaker      // the caller's writer while the call may write to it, or nil
	waking  chan struct{}   // closed after fire has set the deadline of dst; may be nil
	fired   bool            // the watcher has ended the connection's reads and writes
}

type writeWaker interface {
	SetWriteDeadline(t time.Time) error
}

// begin starts to watch the context of a call. If ctx has ended, begin returns its error. The
// caller must call end even after an error.
func (w *watcher) begin(ctx context.Context) error {
	done := ctx.Done()
	if done == nil {
		return nil
	}
	w.ctx = ctx
	w.mu.Lock()
	w.calling = done
	w.mu.Unlock()
	if w.repeated = done == w.last; !w.repeated {
		w.stop()
		w.last = done
	}
	if w.unregister == nil {
		w.unregister = context.AfterFunc(ctx, func() { w.fire(done) })
	}
	return ctx.Err() // ctx may have ended before calling was set
}

// end stops watching the context after a call. It reports whether the watcher has ended the
// connection's reads and writes.
func (w *watcher) end() (fired bool) {
	if w.ctx == nil {
		return false
	}
	w.ctx = nil
	if !w.repeated {
		w.stop()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calling = nil
	return w.fired
}

// err returns the context's error if the context has ended. Call it after each change of the
// connection's deadline, because the change may remove the deadline that fire has set.
func (w *watcher) err() error {
	if w.ctx == nil {
		return nil
	}
	return w.ctx.Err()
}

func (w *watcher) stop() {
	if w.unregister != nil {
		w.unregister()
		w.unregister = nil
	}
}

// guard makes the end of the context also interrupt a blocked Write to dst, until unguard. dst may
// be nil. If the context has ended, guard returns the context's error and has no effect.
func (w *watcher) guard(dst writeWaker) error {
	w.mu.Lock()
	if !w.fired {
		w.dst = dst
	}
	w.mu.Unlock()
	err := w.err()
	if err != nil {
		w.unguard(false)
	}
	return err
}

// unguard undoes guard and removes the write deadline of dst. If keep is true and the context has
// ended, it sets a write deadline in the past instead.
func (w *watcher) unguard(keep bool) {
	w.mu.Lock()
	dst, waking := w.dst, w.waking
	w.dst, w.waking = nil, nil
	w.mu.Unlock()
	if waking != nil {
		<-waking
	}
	switch {
	case dst == nil:
	case keep && w.err() != nil: // the call may end before fire runs
		_ = dst.SetWriteDeadline(longAgo)
	case waking != nil && !keep:
		_ = dst.SetWriteDeadline(time.Time{})
	}
}

// fire ends reads and writes, if ctxDone belongs to the current call.
func (w *watcher) fire(ctxDone <-chan struct{}) {
	w.mu.Lock()
	if w.calling != ctxDone {
		w.mu.Unlock()
		return
	}
	w.fired = true
	_ = w.conn.SetDeadline(longAgo)
	dst := w.dst
	if dst == nil {
		w.mu.Unlock()
		return
	}
	waking := make(chan struct{})
	w.waking = waking
	w.mu.Unlock()
	_ = dst.SetWriteDeadline(longAgo) // without the mutex, because dst is the caller's code
	close(waking)
}
