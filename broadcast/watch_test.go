package broadcast_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-io/millrace/broadcast"
)

// wantSignals counts the signals to w.
func wantSignals(t *testing.T, w *broadcast.Watcher, want int) {
	t.Helper()
	n := 0
	for synctest.Wait(); len(w.C) > 0; synctest.Wait() {
		<-w.C
		n++
	}
	if n != want {
		t.Errorf("%d signals, want %d", n, want)
	}
}

// A timer that fires while another call announces frames must not announce too early.
func TestLateTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := broadcast.New(broadcast.Latency(time.Second))
		defer r.Close()
		w := r.Watch()
		publish(t, r, "k", true)
		r.Expire()
		wantSignals(t, w, 0)
		time.Sleep(time.Second)
		wantSignals(t, w, 1)
		r.Expire()
		wantSignals(t, w, 0)
	})
}

func TestCloseSignalsEveryWatcher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := broadcast.New(broadcast.Latency(time.Hour))
		all := []*broadcast.Watcher{r.Watch(), r.Watch(), r.Watch(), r.Watch()}
		all[1].Stop() // the last watcher takes its place
		check(t, r)
		publish(t, r, "k", true)
		r.Close()
		r.Close()
		if r.TimerArmed() {
			t.Error("a closed ring has a timer running")
		}
		all = append(all, r.Watch()) // a late watcher
		for i, want := range []int{1, 0, 1, 1, 1} {
			wantSignals(t, all[i], want)
			all[i].Stop()
		}
		check(t, r)
	})
}
