package broadcast_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-io/millrace/broadcast"
)

// bubble runs f in a synctest bubble with a ring and its watcher, and closes
// the ring after it.
func bubble(t *testing.T, f func(t *testing.T, r *broadcast.Ring, w *broadcast.Watcher), opts ...broadcast.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := broadcast.New(opts...)
		w := r.Watch()
		f(t, r, w)
		w.Stop()
		r.Close()
		check(t, r)
		if r.TimerArmed() {
			t.Error("a closed ring has a timer running")
		}
	})
}

// signals counts what has been sent to w.
func signals(w *broadcast.Watcher) (n int) {
	for {
		synctest.Wait()
		select {
		case <-w.C:
			n++
		default:
			return n
		}
	}
}

func wantSignals(t *testing.T, w *broadcast.Watcher, want int) {
	t.Helper()
	if n := signals(w); n != want {
		t.Errorf("%d signals, want %d", n, want)
	}
}

func TestWithoutLatencyEachFrameSignals(t *testing.T) {
	bubble(t, func(t *testing.T, r *broadcast.Ring, w *broadcast.Watcher) {
		publish(t, r, "k", true)
		wantSignals(t, w, 1)
		publish(t, r, "a", false)
		publish(t, r, "b", false)
		wantSignals(t, w, 1) // there is room for one
		r.Flush()
		wantSignals(t, w, 0)
		w.Stop()
		publish(t, r, "c", false)
		wantSignals(t, w, 0)
	})
}

func TestLatencySignalsOnceForAllThatCameWithin(t *testing.T) {
	bubble(t, func(t *testing.T, r *broadcast.Ring, w *broadcast.Watcher) {
		other := r.Watch()
		defer other.Stop()
		begin := time.Now()
		for range 3 {
			publish(t, r, "k", true)
			time.Sleep(15 * time.Millisecond)
			wantSignals(t, w, 0)
		}
		<-w.C
		if d := time.Since(begin); d != 50*time.Millisecond {
			t.Errorf("signalled after %v, want 50ms after the first frame", d)
		}
		wantSignals(t, w, 0)
		wantSignals(t, other, 1)
		time.Sleep(10 * time.Millisecond)
		publish(t, r, "k", true)
		<-w.C
		if d := time.Since(begin); d != 110*time.Millisecond {
			t.Errorf("signalled after %v, want 50ms after the first frame that was not announced", d)
		}
		time.Sleep(time.Hour)
		wantSignals(t, w, 0)
	}, broadcast.Latency(50*time.Millisecond))
}

// Take gives a frame before it is announced.
func TestTakeDoesNotWaitForLatency(t *testing.T) {
	bubble(t, func(t *testing.T, r *broadcast.Ring, w *broadcast.Watcher) {
		publish(t, r, "k", true)
		c := r.Cursor()
		defer c.Close()
		if s, _ := take(t, c); s != "k" {
			t.Errorf("Take = %q", s)
		}
	}, broadcast.Latency(time.Hour))
}

func TestFlushSignalsEarly(t *testing.T) {
	bubble(t, func(t *testing.T, r *broadcast.Ring, w *broadcast.Watcher) {
		r.Flush()
		wantSignals(t, w, 0) // of nothing
		publish(t, r, "k", true)
		time.Sleep(10 * time.Millisecond)
		r.Flush()
		wantSignals(t, w, 1)
		r.Flush()
		wantSignals(t, w, 0)
		// The timer of the first frame must not announce this one at 50 ms.
		publish(t, r, "a", false)
		begin := time.Now()
		<-w.C
		if d := time.Since(begin); d != 50*time.Millisecond {
			t.Errorf("signalled after %v, want 50ms", d)
		}
	}, broadcast.Latency(50*time.Millisecond))
}

// A timer that fires while another call announces must not announce early.
func TestLateTimer(t *testing.T) {
	bubble(t, func(t *testing.T, r *broadcast.Ring, w *broadcast.Watcher) {
		publish(t, r, "k", true)
		r.Expire()
		wantSignals(t, w, 0)
		time.Sleep(time.Second)
		wantSignals(t, w, 1)
		r.Expire()
		wantSignals(t, w, 0)
	}, broadcast.Latency(time.Second))
}

func TestCloseSignalsEveryWatcher(t *testing.T) {
	bubble(t, func(t *testing.T, r *broadcast.Ring, w *broadcast.Watcher) {
		others := []*broadcast.Watcher{r.Watch(), r.Watch(), r.Watch()}
		others[0].Stop() // and the last one takes its place
		check(t, r)
		publish(t, r, "k", true)
		r.Close()
		r.Close()
		for i, want := range []int{0, 1, 1} {
			wantSignals(t, others[i], want)
		}
		wantSignals(t, w, 1)
		late := r.Watch()
		wantSignals(t, late, 1)
		for _, w := range append(others, late) {
			w.Stop()
		}
	}, broadcast.Latency(time.Hour))
}

// More says whether the next Take gives something at once.
func TestMore(t *testing.T) {
	r := broadcast.New(broadcast.MaxFrames(3))
	c := r.Cursor(broadcast.BatchBytes(4))
	wantMore := func(want bool) {
		t.Helper()
		if _, b := take(t, c); b.More != want {
			t.Errorf("%+v, want More %v", b, want)
		}
	}
	wantMore(false)
	publish(t, r, "key", true)
	publish(t, r, "does not fit", false)
	wantMore(true)
	wantMore(false)
	for range 4 {
		publish(t, r, "lost", false)
	}
	wantMore(false) // until a key frame comes
	r.Close()
	wantMore(true) // the loss; the end comes next
	c.Close()
}
