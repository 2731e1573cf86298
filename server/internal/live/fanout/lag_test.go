package fanout

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-io/millrace/broadcast"
)

// The time that a viewer waits for its first keyframe does not count as lag.
func TestViewerWaitingForKeyframeIsNotBehind(t *testing.T) {
	f := newFixture(Config{}, broadcast.MaxFrames(64))
	defer f.Close(StreamEnded)
	f.publish(t, "of a group that is not kept", false)
	v := f.unserved(newMemoryConn(pathWritev), newLoop(&f.src, 0))
	defer v.finish()
	for range 3 {
		f.publish(t, "picture", false)
	}
	lag := func() broadcast.Lag {
		t.Helper()
		if err := v.takeBatch(); err != nil {
			t.Fatal(err)
		}
		lag := v.behindBy(0)
		lag.Time = 0
		return lag
	}
	lag()
	f.publish(t, "key", true)
	f.publish(t, "picture", false)
	got, pending := lag(), v.out.pending.Bytes()
	if got != (broadcast.Lag{Frames: 2, Bytes: 10}) ||
		!bytes.HasSuffix(pending, []byte("keypicture")) {
		t.Errorf("with %q pending the viewer is behind by %+v", pending, got)
	}
	if got := lag(); got != (broadcast.Lag{}) {
		t.Errorf("with everything the viewer is behind by %+v", got)
	}
}

// The lag of a viewer at its start does not count against the allowance until the viewer has caught
// up once.
func TestLagAtTheStartIsAllowed(t *testing.T) {
	allowance := broadcast.Lag{Bytes: 100, Frames: 10, Time: time.Second}
	for _, test := range []struct {
		lag     broadcast.Lag
		arrived bool
		want    Reason
	}{
		{broadcast.Lag{Bytes: 600, Frames: 60, Time: 6 * time.Second}, false, Connected},
		{broadcast.Lag{Bytes: 601}, false, LagBytes},
		{broadcast.Lag{Frames: 61}, false, LagFrames},
		{broadcast.Lag{Time: 6*time.Second + 1}, false, LagTime},
		{broadcast.Lag{Bytes: 100, Frames: 10, Time: time.Second}, true, Connected},
		{broadcast.Lag{Bytes: 101}, true, LagBytes},
		{broadcast.Lag{Frames: 11}, true, LagFrames},
		{broadcast.Lag{Time: time.Second + 1}, true, LagTime},
	} {
		m := lagMeter{start: broadcast.Lag{Bytes: 500, Frames: 50, Time: 5 * time.Second}}
		m.arrived.Store(test.arrived)
		if got := m.exceededLimit(allowance, test.lag); got != test.want {
			t.Errorf("%+v, arrived %v: %v, want %v", test.lag, test.arrived, got, test.want)
		}
	}
}

// A viewer that joins healthy viewers and accepts nothing is disconnected, even if no frame comes.
func TestAViewerThatStallsAtOnceIsDisconnected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(Config{Stall: 5 * time.Second})
		f.publish(t, "frame", true)
		healthy, stalled := newMemoryConn(pathWritev), newMemoryConn(pathWritev)
		f.Start(f.viewer(healthy), 0, func() { <-healthy.gone })
		time.Sleep(time.Second)
		stalled.setRoom(0)
		v := f.viewer(stalled)
		f.Start(v, 0, func() { <-stalled.gone })
		time.Sleep(5*time.Second + 2*inspectEvery)
		if why := v.Reason(); why != Stalled {
			t.Errorf("after 5 s without a byte: %v", why)
		}
		v.End(Stalled) // after a failure
		f.Close(StreamEnded)
		time.Sleep(inspectEvery) // the loop ends
	})
}

// A viewer whose socket is full stays with its goroutine, which waits for the socket.
func TestAViewerWithAFullSocketIsNotHealthy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(Config{Stall: time.Minute})
		f.publish(t, "frame", true)
		l := newLoop(&f.src, 0)
		conn := newMemoryConn(pathWritev)
		conn.setRoom(3)
		v := f.unserved(conn, l)
		l.add(v)
		if l.makeHealthy(v) || len(l.healthy) > 0 || len(l.detached) != 1 {
			t.Errorf("%d healthy and %d detached viewers", len(l.healthy), len(l.detached))
		}
		conn.setRoom(-1)
		if !l.makeHealthy(v) || len(l.healthy) != 1 || len(l.detached) > 0 {
			t.Errorf("with room: %d healthy and %d detached viewers", len(l.healthy),
				len(l.detached))
		}
		f.Close(StreamEnded)
		time.Sleep(inspectEvery) // the loop ends
	})
}

// A healthy viewer whose client hangs up is gone before the next frame.
func TestAViewerThatHangsUpIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(Config{Stall: time.Minute})
		f.publish(t, "frame", true)
		conn := newMemoryConn(pathWritev)
		f.Start(f.viewer(conn), 0, func() { <-conn.gone })
		synctest.Wait()
		l := f.loops[0]
		if len(l.healthy) != 1 {
			t.Errorf("%d healthy viewers, want 1", len(l.healthy))
		}
		conn.abort(false) // the client aborts its end
		synctest.Wait()
		if n := f.served.Load(); n != 0 || len(l.healthy)+len(l.detached) > 0 {
			t.Errorf("%d viewers, %d in the loop's lists", n, len(l.healthy)+len(l.detached))
		}
		f.Close(StreamEnded)
		time.Sleep(inspectEvery) // the loop ends
	})
}

// The replies that wait for a viewer are bounded.
func TestRepliesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(Config{Stall: time.Minute})
		f.publish(t, "frame", true)
		conn := newMemoryConn(pathWritev)
		conn.setRoom(0)
		v := f.viewer(conn)
		f.Start(v, 0, func() { <-conn.gone })
		synctest.Wait()
		accepted := 0
		for v.Reply(make([]byte, 1000)) {
			accepted += 1000
		}
		if rest := MaxReplies - accepted; rest < 0 || rest >= 1000 || !v.Reply(make([]byte, rest)) {
			t.Errorf("%d bytes were accepted, and then not the rest of %d", accepted, MaxReplies)
		}
		if v.Reply([]byte{0}) {
			t.Errorf("more than %d bytes were accepted", MaxReplies)
		}
		conn.setRoom(-1)
		f.Close(StreamEnded)
		time.Sleep(inspectEvery) // the loop ends
	})
}

// A viewer that is found behind several times without catching up in between is counted once.
func TestAViewerIsFoundBehindOnce(t *testing.T) {
	f := newFixture(Config{Allowance: broadcast.Lag{Time: 5 * time.Second},
		Stall: 30 * time.Second})
	defer f.Close(StreamEnded)
	v := f.unserved(newMemoryConn(pathWritev), newLoop(&f.src, 0))
	defer v.finish()
	f.publish(t, "frame", true)
	v.lag.writing.Store(true)
	for range 3 {
		if got := v.inspect(int64(10 * time.Second)); got.Behind != 1 {
			t.Errorf("%+v, want to be behind once", got)
		}
	}
	if n := f.counters.Stats().FoundBehind["lag_time"]; n != 1 {
		t.Errorf("counted %d times", n)
	}
}

// After a stall, a viewer is behind by the length of the stall.
func TestAStallIsDistance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(Config{Stall: 30 * time.Second})
		f.publish(t, "frame", true)
		conn := newMemoryConn(pathWrite)
		conn.setRoom(0)
		v := f.viewer(conn)
		f.Start(v, f.pause, func() { <-conn.gone })
		time.Sleep(3*time.Second + inspectEvery/2)
		if got := f.Lag(); got.Blocked != 1 || got.Live < 3*time.Second ||
			got.Live > 3100*time.Millisecond {
			t.Errorf("after 3 s without a byte: %+v", got)
		}
		conn.setRoom(-1)
		time.Sleep(3 * time.Second)
		if got := f.Lag(); got.Blocked != 0 || got.Live < 3*time.Second ||
			got.Live > 3100*time.Millisecond {
			t.Errorf("3 s later: %+v, want a lag of 3 s and nothing blocked", got)
		}
		f.Close(StreamEnded)
		time.Sleep(inspectEvery) // the loop ends
	})
}
