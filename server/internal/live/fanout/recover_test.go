package fanout

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-io/millrace/broadcast"
)

// If a write panics, each viewer of the loop ends exactly once, even if viewers before it have left
// the list of healthy viewers in the same round.
func TestPanicEndsEachViewerOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(Config{Stall: time.Minute}, broadcast.Latency(50*time.Millisecond))
		f.publish(t, "k", true)
		var conns []*memoryConn
		for range 8 {
			c := newMemoryConn(pathWritev)
			conns = append(conns, c)
			f.Start(f.viewer(c), f.pause, func() { <-c.gone })
			synctest.Wait() // the viewers become healthy in this order
		}
		conns[0].setRoom(0)   // becomes detached
		conns[1].abort(false) // ends
		conns[3].setRoom(0)   // becomes detached
		conns[5].mu.Lock()
		conns[5].panics = true
		conns[5].mu.Unlock()
		f.publish(t, "f", false)
		time.Sleep(time.Second)
		synctest.Wait()
		if n := f.served.Load(); n != 0 {
			t.Errorf("%d viewers are left, want each to end once", n)
		}
		f.Close(StreamEnded)
		time.Sleep(inspectEvery)
	})
}
