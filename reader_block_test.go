package millrace_test

import (
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-io/millrace"
)

// A steady source gives size bytes at a time, or whatever there is room for if size is 0, one packet every interval of
// fake time.
type steady struct {
	size  int
	every time.Duration
}

func (s *steady) Read(p []byte) (int, error) {
	time.Sleep(s.every)
	if s.size > 0 {
		p = p[:min(len(p), s.size)]
	}
	clear(p)
	return len(p), nil
}

func (*steady) SetReadDeadline(time.Time) error { return nil }

// consume reads count packets without keeping any and returns the largest and the last size of the block.
func consume(t *testing.T, pool *millrace.Pool, r *millrace.Reader, packet, count int) (largest, last int64) {
	t.Helper()
	for range count {
		if err := r.ReadRange(packet, func([]byte) {}); err != nil {
			t.Fatal(err)
		}
		last = pool.Stats().InUse
		largest = max(largest, last)
	}
	return largest, last
}

func TestBlockSizeFollowsTheTraffic(t *testing.T) {
	pool := millrace.NewPool()
	src := &steady{size: 100}
	r := pool.NewReader(src, 4096)
	expect := func(what string, packet, count int, want int64) {
		t.Helper()
		if _, last := consume(t, pool, r, packet, count); last != want {
			t.Errorf("%s: block of %d bytes, want %d", what, last, want)
		}
	}
	if largest, _ := consume(t, pool, r, 100, 5000); largest != 4096 {
		t.Errorf("a trickle: blocks of up to %d bytes", largest)
	}
	src.size = 0
	expect("a flood", 1000, 1000, 64<<10)
	src.size = 1 << 15
	expect("large reads", 1000, 10000, 64<<10)
	src.size = 100
	expect("a trickle again", 100, 5000, 4096)
	r.Release()

	// The first block is no larger than the Reader that was asked for.
	r = pool.NewReader(&steady{size: 10}, 16)
	expect("a trickle into a small Reader", 10, 1000, 512)
	r.Release()
}

// A Reader may be made larger than any block grows by itself.
func TestBlockOfALargeReader(t *testing.T) {
	pool := millrace.NewPool()
	r := pool.NewReader(&steady{size: 1000}, 1<<20)
	if _, largest := consume(t, pool, r, 1000, 100); largest != 4096 {
		t.Errorf("a trickle needs a block of %d bytes", largest)
	}
	b, err := r.Peek(1 << 20)
	if len(b) != 1<<20 || err != nil {
		t.Errorf("Peek: %d bytes, %v", len(b), err)
	}
	r.Release()
	if n := pool.Stats().InUse; n != 0 {
		t.Errorf("%d bytes in use", n)
	}
}

// A stream whose packets are kept pins little more than it sends: its blocks hold about a tenth of a second of it.
func TestBlockSizeOfAStreamThatIsKept(t *testing.T) {
	for _, test := range []struct {
		name         string
		packet       int
		every        time.Duration
		largest, end int64 // block sizes
	}{
		{"100 kbit/s", 250, 20 * time.Millisecond, 4 << 10, 4 << 10},
		{"2 Mbit/s", 1250, 5 * time.Millisecond, 32 << 10, 32 << 10},
		{"100 Mbit/s", 12500, time.Millisecond, 64 << 10, 64 << 10},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pool := millrace.NewPool()
				r := pool.NewReader(&steady{size: test.packet, every: test.every}, 4096)
				var kept millrace.Chain
				var last, largest int64
				for kept.Len() < 2<<20 {
					before := pool.Stats().InUse
					readChain(t, r, &kept, test.packet)
					if grown := pool.Stats().InUse - before; grown > 0 {
						last, largest = grown, max(largest, grown)
					}
				}
				if largest > test.largest || last != test.end {
					t.Errorf("blocks of up to %d bytes, the last of %d; want %d and %d", largest, last, test.largest, test.end)
				}
				if pinned := pool.Stats().InUse; pinned > int64(kept.Len())*3/2+last {
					t.Errorf("%d bytes in use for %d that are kept", pinned, kept.Len())
				}
				kept.Release()
				r.Release()
				if n := pool.Stats().InUse; n != 0 {
					t.Errorf("%d bytes in use", n)
				}
			})
		})
	}
}

// A block whose packets were all released in time is started over in place, as if nothing had been kept.
func TestReleasedPacketsLeaveTheBlock(t *testing.T) {
	pool := millrace.NewPool()
	r := pool.NewReader(&steady{size: 100}, 4096)
	for range 10000 {
		var c millrace.Chain
		readChain(t, r, &c, 100)
		c.Release()
	}
	r.Release()
	if s := pool.Stats(); s.Taken != 1 {
		t.Errorf("%d blocks were taken", s.Taken)
	}
}

// A window of kept packets, as a relay has, is served from blocks that come back.
func TestBlocksOfAWindowComeBack(t *testing.T) {
	pool := millrace.NewPool()
	r := pool.NewReader(mayWait{&pattern{end: rounds(48 << 20), most: 2000}}, 4096)
	var window millrace.Chain
	at := 0
	for {
		if err := r.ReadChain(&window, 1000); err == io.EOF || err == io.ErrUnexpectedEOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if window.Len() > 256<<10 {
			var old millrace.Chain
			window.Cut(&old, 1000)
			checkPattern(t, &old, at, 1000)
			old.Release()
			at += 1000
		}
	}
	if s := pool.Stats(); s.HighWater > 2*256<<10 {
		t.Errorf("%d bytes were in use for a window of 256 KiB", s.HighWater)
	}
	window.Release()
	r.Release()
	if n := pool.Stats().InUse; n != 0 {
		t.Errorf("%d bytes in use", n)
	}
}
