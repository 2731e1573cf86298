//go:build !race && !invariants

package millrace_test

import (
	"io"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
)

// wantNoAllocs checks that f allocates nothing once everything is warm.
func wantNoAllocs(t *testing.T, what string, f func()) {
	t.Helper()
	for range 200 {
		f()
	}
	if n := testing.AllocsPerRun(2000, f); n != 0 {
		t.Errorf("%s: %v allocations a run, want 0", what, n)
	}
}

func TestReadingAllocatesNothing(t *testing.T) {
	pool := millrace.NewPool()
	r := pool.NewReader(newBurst(), 4096)
	defer r.Release()
	wantNoAllocs(t, "ReadRange", func() { r.ReadRange(1024, touch) })
	wantNoAllocs(t, "ReadRange with a closure", func() {
		n := 0
		r.ReadRange(1024, func(p []byte) { n += len(p) })
	})
	wantNoAllocs(t, "ReadRange, larger than a block", func() { r.ReadRange(100_000, touch) })
	wantNoAllocs(t, "ReadChain and Release", func() {
		var c millrace.Chain
		r.ReadChain(&c, 1024)
		c.Release()
	})
	var held [64]millrace.Chain
	at := 0
	wantNoAllocs(t, "ReadChain, kept for a while", func() {
		held[at].Release()
		r.ReadChain(&held[at], 1024)
		at = (at + 1) % len(held)
	})
	for i := range held {
		held[i].Release()
	}
	wantNoAllocs(t, "ReadChain for ten", func() {
		var c millrace.Chain
		var others [10]millrace.Chain
		r.ReadChain(&c, 1024)
		for i := range others {
			c.Clone(&others[i])
		}
		c.Release()
		for i := range others {
			others[i].Release()
		}
	})
	wantNoAllocs(t, "integers", func() {
		r.ReadBE(3)
		r.ReadLE(8)
		r.ReadByte()
		r.Skip(100)
	})
	p := make([]byte, 1000)
	wantNoAllocs(t, "Peek, Discard and Read", func() {
		r.Peek(1000)
		r.Discard(1000)
		r.Read(p)
	})
}

func TestReadingFromASocketAllocatesNothing(t *testing.T) {
	client, server := tcpPair(t)
	r := millrace.NewPool().NewReader(client, 4096)
	defer r.Release()
	p := make([]byte, 3000)
	wantNoAllocs(t, "ReadRange after waiting", func() {
		server.Write(p)
		r.ReadRange(len(p), touch)
	})
	wantNoAllocs(t, "ReadChain after waiting", func() {
		server.Write(p)
		var c millrace.Chain
		r.ReadChain(&c, len(p))
		c.Release()
	})
}

// connLike is a source that a Reader never takes for one that does not wait, whatever the clock says.
type connLike struct{ io.Reader }

func (connLike) SetReadDeadline(time.Time) error { return nil }

// While nobody keeps anything, lending touches neither the pool nor a counter.
func TestLendingTouchesNothing(t *testing.T) {
	pool := millrace.NewPool()
	r := pool.NewReader(connLike{newBurst()}, 4096)
	defer r.Release()
	r.ReadRange(1024, touch)
	taken, state := pool.Stats().Taken, millrace.BlockState(r)
	for range 100_000 {
		r.ReadRange(1024, touch)
	}
	if s := pool.Stats(); s.Taken != taken || s.InUseBlocks != 1 {
		t.Errorf("%d blocks taken while lending, %+v", s.Taken-taken, s)
	}
	if s := millrace.BlockState(r); s != state {
		t.Errorf("generation and count of the block changed from %#x to %#x", state, s)
	}
}

func TestSharingAllocatesNothing(t *testing.T) {
	pool := millrace.NewPool()
	var c millrace.Chain
	addBlocks(pool, &c, letters(4000), 1000)
	defer c.Release()
	wantNoAllocs(t, "Chain.Clone and Release", func() {
		var d millrace.Chain
		c.Clone(&d)
		d.Release()
	})
	wantNoAllocs(t, "Chain.Slice, Cut, Merge and Discard", func() {
		var d, front millrace.Chain
		c.Slice(&d, 500, 3500)
		d.Cut(&front, 1000)
		front.Merge(&d)
		front.Discard(100)
		front.Release()
	})
	r := freeze(pool, letters(1000))
	defer r.Release()
	wantNoAllocs(t, "Ref.Clone and Slice", func() {
		s, u := r.Clone(), r.Slice(1, 2)
		s.Release()
		u.Release()
	})
	var d millrace.Chain
	wantNoAllocs(t, "Append and Release", func() {
		s, u := r.Clone(), r.Clone()
		d.Append(&s)
		d.Append(&u)
		d.Release()
	})
	wantNoAllocs(t, "Append of many and Release", func() {
		for range 100 {
			s := r.Clone()
			d.Append(&s)
		}
		d.Release()
	})
	wantNoAllocs(t, "a queue that is never empty", func() {
		for range 10 {
			s := r.Clone()
			d.Append(&s)
		}
		d.Discard(max(0, d.Len()-50*r.Len()))
	})
	d.Release()
}

func TestCopyingInAndOutAllocatesNothing(t *testing.T) {
	header, buf := []byte("a header"), make([]byte, 10_000)
	var c millrace.Chain
	wantNoAllocs(t, "AppendCopy and Release", func() {
		c.AppendCopy(header)
		c.Release()
	})
	wantNoAllocs(t, "AppendCopy into its own block", func() {
		for range 100 {
			c.AppendCopy(header)
		}
		c.Release()
	})
	addBlocks(millrace.DefaultPool, &c, letters(10_000), 500)
	defer c.Release()
	wantNoAllocs(t, "CopyTo and All", func() {
		c.CopyTo(buf)
		for p := range c.All() {
			touch(p)
		}
	})
	wantNoAllocs(t, "Bytes of several pieces", func() {
		var d millrace.Chain
		c.Slice(&d, 0, 1500)
		touch(d.Bytes())
		d.Release()
	})
	wantNoAllocs(t, "Reader", func() {
		v := c.Reader()
		v.Seek(700, io.SeekStart)
		v.Read(buf)
		v.ReadAt(buf, 100)
	})
}

func TestWriteToAllocatesNothing(t *testing.T) {
	client, server := tcpPair(t)
	go io.Copy(io.Discard, server)
	var c millrace.Chain
	addBlocks(millrace.DefaultPool, &c, letters(100_000), 1000)
	defer c.Release()
	for what, n := range map[string]int{"one piece": 1000, "three pieces": 3000, "a hundred pieces": 100_000} {
		var out millrace.Chain
		wantNoAllocs(t, what, func() {
			c.Slice(&out, 0, n)
			if _, err := out.WriteTo(client); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestPoolAllocatesNothing(t *testing.T) {
	pool := millrace.NewPool()
	wantNoAllocs(t, "Get and Release", func() {
		d := pool.Get(4096)
		d.Release()
	})
	wantNoAllocs(t, "Get, Freeze and Release", func() {
		d := pool.Get(4096)
		r := d.Freeze(100)
		r.Release()
	})
	var drafts [100]millrace.Draft
	wantNoAllocs(t, "a hundred at once", func() {
		for i := range drafts {
			drafts[i] = pool.Get(1000)
		}
		for i := range drafts {
			drafts[i].Release()
		}
	})
	wantNoAllocs(t, "Stats", func() { pool.Stats() })
}

// Blocks come back to lists whose room was made when they were allocated: not even the first Release allocates.
func TestReleaseAllocatesNothingFromTheStart(t *testing.T) {
	const n = 1000
	var sets [2][]millrace.Ref // AllocsPerRun calls its function once before it counts
	for i := range sets {
		pool := millrace.NewPool()
		for range n {
			d := pool.Get(1 << 10)
			sets[i] = append(sets[i], d.Freeze(1))
		}
	}
	i := 0
	if got := testing.AllocsPerRun(1, func() {
		for k := range sets[i] {
			sets[i][k].Release()
		}
		i++
	}); got != 0 {
		t.Errorf("%d releases made %v allocations, want 0", n, got)
	}
}
