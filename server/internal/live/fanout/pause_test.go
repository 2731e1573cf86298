package fanout

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-io/millrace/broadcast"
)

// A viewer with a pause gets its batches no more often, whatever other viewers get, and gets the
// end of the stream.
func TestViewerPausesBetweenBatches(t *testing.T) {
	for _, kind := range []path{pathWritev, pathWrite} {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(Config{Stall: time.Minute}, broadcast.Latency(50*time.Millisecond))
			f.publish(t, "k", true)
			f.pause = 200 * time.Millisecond
			slow := newMemoryConn(kind)
			f.Start(f.viewer(slow), f.pause, func() { <-slow.gone })
			f.pause = 0
			fast := newMemoryConn(kind)
			f.Start(f.viewer(fast), f.pause, func() { <-fast.gone })
			batches := func(c *memoryConn, seen *int) bool {
				c.mu.Lock()
				defer c.mu.Unlock()
				grown := len(c.got) > *seen
				*seen = len(c.got)
				return grown
			}
			var slowSeen, fastSeen, slowBatches, fastBatches int
			for range 2000 { // 2 seconds, with a frame each 10 ms
				time.Sleep(time.Millisecond)
				synctest.Wait()
				if batches(slow, &slowSeen) {
					slowBatches++
				}
				if batches(fast, &fastSeen) {
					fastBatches++
				}
				if time.Now().UnixMilli()%10 == 0 {
					f.publish(t, "f", false)
				}
			}
			if slowBatches < 8 || slowBatches > 12 || fastBatches < 30 {
				t.Errorf("%v: %d batches with a pause of 200 ms and %d without in 2 s", kind,
					slowBatches, fastBatches)
			}
			f.publish(t, "f", false)
			f.Close(StreamEnded)
			time.Sleep(time.Second)
			synctest.Wait()
			if !slow.finished || !fast.finished || len(slow.got) != len(fast.got) {
				t.Errorf("%v: finished %v and %v with %d and %d bytes", kind, slow.finished,
					fast.finished, len(slow.got), len(fast.got))
			}
		})
	}
}

// Viewers with different pauses are in different loops.
func TestLoopsByPause(t *testing.T) {
	f := newFixture(Config{})
	for i, pause := range []time.Duration{0, time.Second, 0, time.Second} {
		l := f.pickLoop(pause)
		if l.pause != pause || len(f.loops) != min(i+1, 2) {
			t.Errorf("pick(%v): a loop with %v, and %d loops", pause, l.pause, len(f.loops))
		}
	}
}
