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
