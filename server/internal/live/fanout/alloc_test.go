//go:build !race && !invariants && linux

package fanout

import (
	"io"
	"testing"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/broadcast"
	"github.com/millrace-io/millrace/internal/testkit/alloctest"
)

// A rig is a loop with viewers whose steps the test calls.
type rig struct {
	*fixture
	loop      *loop
	receivers []io.Reader
	buf       []byte
}

func newRig(t testing.TB, viewers int) *rig {
	f := newFixture(Config{}, broadcast.MaxFrames(64)) // a small ring, so that the steady state is reached soon
	l := newLoop(&f.src, 0)
	l.running = true // the test runs the loop itself
	r := &rig{fixture: f, loop: l, buf: make([]byte, 64<<10)}
	for range viewers {
		sender, receiver := tcpPair(t, false)
		v := f.unserved(NewConn(sender, false, 0), l)
		l.healthy = append(l.healthy, v)
		r.receivers = append(r.receivers, receiver)
		t.Cleanup(v.finish)
	}
	t.Cleanup(func() { f.Close(StreamEnded) })
	return r
}

// tick publishes frames as an ingest does, and serves the viewers.
func (r *rig) tick(frames, size int, key bool) {
	for range frames {
		d := millrace.DefaultPool().Get(size)
		ref := d.Freeze(size)
		var c millrace.Chain
		c.Append(&ref)
		if err := r.ring.Publish(&c, broadcast.Frame{Key: key}); err != nil {
			panic(err)
		}
		key = false
	}
	r.loop.writeHealthy()
}

// receive reads what a tick has sent. It runs on this goroutine, because AllocsPerRun leaves one
// processor to all goroutines.
func (r *rig) receive(n int) {
	for _, from := range r.receivers {
		if _, err := io.ReadFull(from, r.buf[:n]); err != nil {
			panic(err)
		}
	}
}

// In steady state a frame costs no allocation between the ring and the viewers' sockets.
func TestARoundAllocatesNothing(t *testing.T) {
	r := newRig(t, 8)
	n := 0
	rounds := func() {
		for range 500 {
			r.tick(4, 3000, n%10 == 0)
			r.receive(4 * 3000)
			n++
		}
	}
	rounds() // until all buffers have their size
	allocs := alloctest.Count(0, rounds)
	if len(r.loop.healthy) != 8 {
		t.Fatalf("%d of 8 viewers keep up", len(r.loop.healthy))
	}
	if allocs != 0 {
		t.Errorf("%v allocations in 500 rounds of 4 frames to 8 viewers, want 0", allocs)
	}
}
