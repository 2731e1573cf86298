package redisbuf

import (
	"context"
	"net"
	"sync"
	"time"
)

// An ioDeadline gives each read, or each write, of a connection at least the timeout. Setting a
// deadline costs nearly as much as a short read. The ioDeadline therefore sets a deadline to a
// quarter more than the timeout, and keeps it as long as at least the timeout is left.
type ioDeadline struct {
	set     func(time.Time) error // sets the deadline of the connection
	watcher *watcher              // the watcher, which sets a deadline, too
	timeout time.Duration         // 0 or less for no timeout
	until   time.Time             // zero if no deadline is set
}

// renew makes sure that at least the timeout is left. It is called before a read or write.
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

// clear removes the timeout, so that a read or write may wait for as long as the context allows.
func (d *ioDeadline) clear() error {
	if d.timeout > 0 {
		d.until = time.Time{}
		if err := d.set(d.until); err != nil {
			return err
		}
	}
	return d.watcher.err()
}

// longAgo is a deadline that ends reads and writes at once.
var longAgo = time.Unix(1, 0)

// A watcher ends the reads and writes of a connection when the context of the current call ends. If
// two calls in a row use the same context, the context stays registered between calls. The next
// call with it then allocates nothing.
type watcher struct {
	conn       net.Conn
	ctx        context.Context // context of the current call, if it can be cancelled; otherwise nil
	last       <-chan struct{} // the Done channel of the last such context
	repeated   bool            // two calls in a row used the context of last
	unregister func() bool     // unregisters from the context of last; nil if it is not registered

	mu      sync.Mutex
	calling <-chan struct{} // ctx.Done() during a call, and nil between calls
	fired   bool            // the watcher has ended the connection's reads and writes
}

// begin starts to watch the context of a call. If the context has already ended, it returns the
// context's error. The caller must call end in any case.
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

// end ends the watching after a call. It reports whether the connection's reads and writes were
// ended.
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

// err returns the context's error, if the context has ended. Call it after setting a deadline,
// because that deadline may have replaced the deadline that the watcher has set.
func (w *watcher) err() error {
	if w.ctx == nil {
		return nil
	}
	return w.ctx.Err()
}

// stop unregisters the registered context.
func (w *watcher) stop() {
	if w.unregister != nil {
		w.unregister()
		w.unregister = nil
	}
}

// fire ends the connection's reads and writes if done belongs to the context of the current call.
func (w *watcher) fire(done <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.calling == done {
		_ = w.conn.SetDeadline(longAgo)
		w.fired = true
	}
}
