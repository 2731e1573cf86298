package broadcast_test

import (
	"context"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-io/millrace/broadcast"
)

// bubble runs f in a synctest bubble with a ring, and closes the ring after it.
func bubble(t *testing.T, f func(t *testing.T, r *broadcast.Ring), opts ...broadcast.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := broadcast.New(opts...)
		f(t, r)
		r.Close()
		check(t, r)
		if r.Stats().Cursors > 0 {
			t.Error("the test left cursors open")
		}
	})
}

// wakeups runs a reader, which waits and takes until the end, and counts.
type wakeups struct {
	mu        sync.Mutex
	n, frames int
	last      time.Time
	err       error
}

func (w *wakeups) start(ctx context.Context, t testing.TB, c *broadcast.Cursor) {
	go func() {
		for {
			err := c.Wait(ctx)
			if !w.woken(t, c, err) {
				return
			}
		}
	}()
	synctest.Wait()
}

// woken notes the end of a wait, and reports whether the reader goes on.
func (w *wakeups) woken(t testing.TB, c *broadcast.Cursor, err error) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err = err; err != nil {
		return false
	}
	w.n++
	w.last = time.Now()
	_, b := take(t, c)
	w.frames += b.Frames
	return true
}

// end returns what ended the reader; nil while it goes on.
func (w *wakeups) end() error {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// after returns when it was woken last.
func (w *wakeups) after(begin time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last.Sub(begin)
}

const anyTimes = -1

func (w *wakeups) want(t *testing.T, n, frames int) {
	t.Helper()
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if n == anyTimes {
		n = w.n
	}
	if w.n != n || w.frames != frames {
		t.Errorf("woken %d times for %d frames, want %d and %d", w.n, w.frames, n, frames)
	}
}

func signals(w *broadcast.Watcher) bool {
	synctest.Wait()
	select {
	case <-w.C:
		return true
	default:
		return false
	}
}

func TestWithoutLatencyEachFrameWakes(t *testing.T) {
	bubble(t, func(t *testing.T, r *broadcast.Ring) {
		c := r.Cursor()
		watcher := r.Watch()
		var w wakeups
		w.start(t.Context(), t, c)
		publish(t, r, "k", true)
		w.want(t, 1, 1)
		if !signals(watcher) || signals(watcher) {
			t.Error("a frame is not one signal")
		}
		publish(t, r, "a", false)
		publish(t, r, "b", false)
		w.want(t, anyTimes, 3)
		if !signals(watcher) || signals(watcher) {
			t.Error("two frames that nobody received a signal of are not one signal")
		}
		watcher.Stop()
		publish(t, r, "c", false)
		if signals(watcher) {
			t.Error("a signal after Stop")
		}
		c.Close()
		w.want(t, anyTimes, 4)
	})
}

func TestLatencyWakesOnceForAllThatCameWithin(t *testing.T) {
	bubble(t, func(t *testing.T, r *broadcast.Ring) {
		c, other := r.Cursor(), r.Cursor()
		watcher := r.Watch()
		var w, o wakeups
		w.start(t.Context(), t, c)
		o.start(t.Context(), t, other)
		begin := time.Now()
		for range 3 {
			publish(t, r, "k", true)
			time.Sleep(20 * time.Millisecond)
		}
		// The fourth comes at 60 ms, after the announcement at 50 ms.
		publish(t, r, "k", true)
		w.want(t, 1, 3)
		o.want(t, 1, 3)
		if d := w.after(begin); d != 50*time.Millisecond {
			t.Errorf("woken after %v, want 50ms after the first frame", d)
		}
		if !signals(watcher) || signals(watcher) {
			t.Error("the announcement is not one signal")
		}
		time.Sleep(time.Hour)
		w.want(t, 2, 4)
		if d := w.after(begin); d != 110*time.Millisecond {
			t.Errorf("woken after %v, want 50ms after the first frame that was not announced", d)
		}
		watcher.Stop()
		c.Close()
		other.Close()
	}, broadcast.Latency(50*time.Millisecond))
}

// Wait counts a frame from its announcement on; Take gives it before.
func TestWaitLeavesFramesTimeToGather(t *testing.T) {
	bubble(t, func(t *testing.T, r *broadcast.Ring) {
		publish(t, r, "k", true)
		c := r.Cursor()
		begin := time.Now()
		if err := c.Wait(t.Context()); err != nil || time.Since(begin) != 50*time.Millisecond {
			t.Errorf("Wait = %v after %v", err, time.Since(begin))
		}
		publish(t, r, "a", false)
		if s, _ := take(t, c); s != "ka" {
			t.Errorf("Take = %q", s)
		}
		c.Close()
	}, broadcast.Latency(50*time.Millisecond))
}

func TestWakeBytesWakesEarly(t *testing.T) {
	bubble(t, func(t *testing.T, r *broadcast.Ring) {
		c := r.Cursor()
		var w wakeups
		w.start(t.Context(), t, c)
		begin := time.Now()
		publish(t, r, "1234", true)
		time.Sleep(10 * time.Millisecond)
		publish(t, r, "56789", false)
		w.want(t, 0, 0)
		publish(t, r, "0", false)
		w.want(t, 1, 3)
		// The timer of the first frame must not announce this one at 50 ms.
		publish(t, r, "1", false)
		time.Sleep(49 * time.Millisecond)
		w.want(t, 1, 3)
		time.Sleep(time.Millisecond)
		w.want(t, 2, 4)
		if d := w.after(begin); d != 60*time.Millisecond {
			t.Errorf("woken after %v, want 60ms", d)
		}
		c.Close()
	}, broadcast.Latency(50*time.Millisecond), broadcast.WakeBytes(10))
}

// A timer that fired while somebody else announced must not announce early.
func TestLateTimer(t *testing.T) {
	bubble(t, func(t *testing.T, r *broadcast.Ring) {
		c := r.Cursor()
		publish(t, r, "k", true)
		r.Expire()
		if c.Ready() {
			t.Error("announced before it was due")
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if !c.Ready() {
			t.Error("not announced when it was due")
		}
		r.Expire()
		c.Close()
	}, broadcast.Latency(time.Second))
}

func TestCloseStopsTheTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := broadcast.New(broadcast.Latency(time.Second))
		if r.TimerArmed() {
			t.Error("a new ring has a timer running")
		}
		publish(t, r, "k", true)
		r.Close()
		if r.TimerArmed() {
			t.Error("a closed ring has a timer running")
		}
		r.Expire()
	})
}

func TestCloseWakesEveryWaiter(t *testing.T) {
	bubble(t, func(t *testing.T, r *broadcast.Ring) {
		fed, empty := r.Cursor(), r.Cursor()
		watcher := r.Watch()
		var f, e wakeups
		f.start(t.Context(), t, fed)
		e.start(t.Context(), t, empty)
		publish(t, r, "k", true) // not announced for an hour
		r.Close()
		f.want(t, 1, 1)
		e.want(t, 1, 1)
		if f.end() != io.EOF || e.end() != io.EOF {
			t.Errorf("Wait = %v and %v, want io.EOF", f.end(), e.end())
		}
		if !signals(watcher) {
			t.Error("Close did not signal the watcher")
		}
		watcher.Stop()
		fed.Close()
		empty.Close()
	}, broadcast.Latency(time.Hour))
}

func TestCursorCloseEndsItsWait(t *testing.T) {
	bubble(t, func(t *testing.T, r *broadcast.Ring) {
		cs := []*broadcast.Cursor{r.Cursor(), r.Cursor(), r.Cursor()}
		var ws [3]wakeups
		for i, c := range cs {
			ws[i].start(t.Context(), t, c)
		}
		for i, c := range cs {
			c.Close()
			if err := ws[i].end(); err != broadcast.ErrClosed {
				t.Errorf("Wait = %v, want ErrClosed", err)
			}
			check(t, r)
		}
	})
}

func TestContextEndsTheWait(t *testing.T) {
	bubble(t, func(t *testing.T, r *broadcast.Ring) {
		c, other := r.Cursor(), r.Cursor()
		ctx, cancel := context.WithCancel(t.Context())
		var w, o wakeups
		w.start(ctx, t, c)
		o.start(t.Context(), t, other)
		cancel()
		synctest.Wait()
		if w.end() != context.Canceled {
			t.Errorf("Wait = %v", w.end())
		}
		check(t, r)

		begin := time.Now()
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := c.Wait(ctx); err != context.DeadlineExceeded || time.Since(begin) != time.Second {
			t.Errorf("Wait = %v after %v", err, time.Since(begin))
		}
		// The other one is still on the list.
		publish(t, r, "k", true)
		o.want(t, 1, 1)
		// An ended context wins over frames, so that a loop ends in any case.
		if err := c.Wait(ctx); err != context.DeadlineExceeded {
			t.Errorf("Wait with an ended context = %v", err)
		}
		c.Close()
		other.Close()
	})
}

// A reader that waits for a key frame is not woken by others.
func TestOthersDoNotWakeAJoiner(t *testing.T) {
	bubble(t, func(t *testing.T, r *broadcast.Ring) {
		c := r.Cursor()
		var w wakeups
		w.start(t.Context(), t, c)
		publish(t, r, "a", false)
		publish(t, r, "b", false)
		w.want(t, 0, 0)
		publish(t, r, "k", true)
		w.want(t, 1, 1)
		c.Close()
	})
}

func TestWaitersThatStayKeepTheirPlaces(t *testing.T) {
	bubble(t, func(t *testing.T, r *broadcast.Ring) {
		var w [6]wakeups
		var cs [6]*broadcast.Cursor
		for i := range cs {
			if i%2 == 0 {
				cs[i] = r.Cursor(broadcast.FromHead())
			} else {
				cs[i] = r.Cursor()
			}
			w[i].start(t.Context(), t, cs[i])
		}
		publish(t, r, "a", false)
		synctest.Wait()
		check(t, r)
		for i := range cs {
			w[i].want(t, 1-i%2, 1-i%2)
			cs[i].Close()
			check(t, r)
		}
	})
}

// Cursors that begin to wait while a waker is busy, more than it has room for,
// are all woken.
func TestManyBeginToWaitBesideAWaker(t *testing.T) {
	bubble(t, func(t *testing.T, r *broadcast.Ring) {
		const most = 100
		var w [most]wakeups
		var cs [most]*broadcast.Cursor
		for i := range cs {
			if i == 3 {
				r.AddWakers(1)
			}
			cs[i] = r.Cursor()
			w[i].start(t.Context(), t, cs[i])
			synctest.Wait()
		}
		r.AddWakers(-1)
		publish(t, r, "k", true)
		synctest.Wait()
		for i := range cs {
			w[i].want(t, 1, 1)
			cs[i].Close()
		}
		check(t, r)
	})
}

// The loss of a cursor that no key frame moved is something to wait for, once.
func TestWaitForTheLastLoss(t *testing.T) {
	bubble(t, func(t *testing.T, r *broadcast.Ring) {
		publish(t, r, "k", true)
		c := r.Cursor()
		take(t, c)
		var w wakeups
		for range 3 {
			publish(t, r, "a", false)
		}
		w.start(t.Context(), t, c)
		w.want(t, 0, 0)
		r.Close()
		w.want(t, 1, 0)
		if w.end() != io.EOF {
			t.Errorf("Wait = %v", w.end())
		}
		c.Close()
	}, broadcast.MaxFrames(2))
}
