//go:build !race && !invariants

package broadcast_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/broadcast"
	"github.com/millrace-io/millrace/internal/testkit/alloctest"
)

// fill adds new blocks to a frame, n bytes each. After a warm-up of the pool it allocates nothing,
// unless the chain needs an array for its pieces.
func fill(frame *millrace.Chain, pool *millrace.Pool, pieces, n int) {
	for range pieces {
		draft := pool.Get(n)
		ref := draft.Freeze(n)
		frame.Append(&ref)
	}
}

func wantNoAllocs(t *testing.T, name string, warm int, f func()) {
	t.Helper()
	for range warm {
		f()
	}
	if n := alloctest.Count(0, func() {
		for range 1000 {
			f()
		}
	}); n != 0 {
		t.Errorf("%s: %v allocations in 1000 runs, want 0", name, n)
	}
}

// A ring that has been full once allocates nothing.
func TestFullRingAllocatesNothing(t *testing.T) {
	for _, test := range []struct {
		name       string
		pieces     int // per frame
		maxPieces  int
		wantFrames int // kept at the end
	}{
		{"frames of one piece", 1, 16384, 16384},
		{"frames of three pieces", 3, 16384, 5461},
		{"frames of four pieces", 4, 1000, 250},
		{"frames of nine pieces", 9, 1000, 111},
	} {
		const frames = 20000
		var block millrace.Chain
		block.AppendCopy(make([]byte, 1000))
		ring := broadcast.New(broadcast.MaxPieces(test.maxPieces))
		var frame millrace.Chain
		publish := func() {
			for n := range test.pieces { // no piece ends where the next one begins
				block.SliceTo(&frame, n*20, n*20+10)
			}
			if err := ring.Publish(&frame, broadcast.Frame{}); err != nil {
				t.Fatal(err)
			}
		}
		if ring.Records() > 256 {
			t.Errorf("%s: an empty ring has room for %d frames", test.name, ring.Records())
		}
		wantNoAllocs(t, test.name, frames, publish)
		if kept := ring.Stats().Frames; kept != test.wantFrames {
			t.Errorf("%s: %d frames kept, want %d", test.name, kept, test.wantFrames)
		}
		ring.Close()
		block.Release()
	}
}

func TestPublishAllocatesNothing(t *testing.T) {
	for _, test := range []struct {
		name    string
		every   int // distance between keyframes, in frames
		pieces  int
		cursors int
		opts    []broadcast.Option
	}{
		{"groups of 30", 30, 1, 0, nil},
		{"no keyframes: evicts", 1 << 30, 1, 0, []broadcast.Option{broadcast.MaxFrames(1024)}},
		{"every frame a keyframe", 1, 1, 3, nil},
		{"groups of 30, three cursors", 30, 1, 3, nil},
		{"frames of seven pieces", 30, 7, 3, nil},
		{"latency", 30, 1, 3, []broadcast.Option{broadcast.Latency(time.Hour)}},
		{"small ring", 100, 2, 3, []broadcast.Option{broadcast.MaxFrames(16)}},
	} {
		pool := millrace.NewPool()
		ring := broadcast.New(test.opts...)
		var pre millrace.Chain
		fill(&pre, pool, 1, 10)
		ring.SetPreamble(&pre)
		var cursors []*broadcast.Cursor
		for range test.cursors {
			cursors = append(cursors, ring.Cursor())
		}
		// The publisher keeps the array of a frame of many pieces, because it uses its chain again.
		var frame, dst millrace.Chain
		n := 0
		publish := func() {
			fill(&frame, pool, test.pieces, 1000)
			if err := ring.Publish(&frame, broadcast.Frame{Key: n%test.every == 0}); err != nil {
				t.Fatal(err)
			}
			if n++; n%4 != 0 {
				return
			}
			ring.Flush() // stops the timer
			for _, c := range cursors {
				if _, err := c.Take(&dst); err != nil {
					t.Fatal(err)
				}
				dst.Release()
			}
		}
		wantNoAllocs(t, test.name, 3000, publish)
		for _, c := range cursors {
			c.Close()
		}
		ring.Close()
		if s := pool.Stats(); s.InUse != 0 {
			t.Errorf("%s: %d bytes of the pool are still in use", test.name, s.InUse)
		}
	}
}

// Waking readers and waiting allocate nothing either.
func TestWakingAllocatesNothing(t *testing.T) {
	pool := millrace.NewPool()
	ring := broadcast.New()
	var readers, read sync.WaitGroup
	for range 20 {
		c := ring.Cursor()
		readers.Go(func() {
			defer c.Close()
			var dst millrace.Chain
			for {
				b, err := c.Next(context.Background(), &dst)
				if err != nil {
					return
				}
				dst.Release()
				for range b.Frames {
					read.Done()
				}
			}
		})
	}
	wantNoAllocs(t, "publish to 20 readers", 100, func() {
		read.Add(20)
		var frame millrace.Chain
		fill(&frame, pool, 1, 1000)
		if err := ring.Publish(&frame, broadcast.Frame{Key: true}); err != nil {
			t.Fatal(err)
		}
		read.Wait()
	})
	ring.Close()
	readers.Wait()
}

// Builds with -tags invariants have larger pieces.
func TestRoom(t *testing.T) {
	if broadcast.RecordSize > 40 {
		t.Errorf("a record takes %d bytes; say so at MaxFrames", broadcast.RecordSize)
	}
	if broadcast.PieceSize > 46 {
		t.Errorf("a piece takes %v bytes; say so at MaxFrames", broadcast.PieceSize)
	}
}
