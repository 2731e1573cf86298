package millrace_test

import (
	"bytes"
	"io"
	"math"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"weak"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/testkit/nettest"
)

func TestPoolSizes(t *testing.T) {
	p := millrace.NewPool()
	for _, test := range []struct{ n, size int }{
		{0, 512}, {1, 512}, {511, 512}, {512, 512}, {513, 1024}, {1024, 1024}, {1025, 2048},
		{4096, 4096},
		{65537, 1 << 17}, {1<<20 - 1, 1 << 20}, {1 << 20, 1 << 20}, {1<<20 + 1, 1<<20 + 1},
		{3 << 20, 3 << 20},
	} {
		d := p.Get(test.n)
		if n := len(d.Bytes()); n != test.size {
			t.Errorf("Get(%d) gave %d bytes, want %d", test.n, n, test.size)
		}
		if s := p.Stats(); s.InUse != int64(test.size) || s.InUseBlocks != 1 {
			t.Errorf("Get(%d): %d bytes, %d blocks in use", test.n, s.InUse, s.InUseBlocks)
		}
		d.Release()
	}
}

// Stats is checked after each step in the life of a Pool.
func TestPoolStats(t *testing.T) {
	p := millrace.NewPool()
	expect := func(what string, want millrace.PoolStats) {
		t.Helper()
		if got := p.Stats(); got != want {
			t.Errorf("%s:\n got %+v\nwant %+v", what, got, want)
		}
	}
	expect("new", millrace.PoolStats{})
	a := p.Get(1000)
	b := p.Get(5000)
	expect("two out", millrace.PoolStats{InUse: 1024 + 8192, InUseBlocks: 2, HighWater: 9216,
		Taken: 2})
	r := a.Freeze(10)
	a.Release() // has no effect: a is empty
	s, u := r.Clone(), r.Slice(3, 5)
	r.Release()
	u.Release()
	expect("shares do not count", millrace.PoolStats{InUse: 9216, InUseBlocks: 2, HighWater: 9216,
		Taken: 2})
	s.Release()
	expect("one back", millrace.PoolStats{InUse: 8192, InUseBlocks: 1, Idle: 1024, HighWater: 9216,
		Taken: 2})
	c := p.Get(600)
	expect("one again", millrace.PoolStats{InUse: 9216, InUseBlocks: 2, HighWater: 9216, Taken: 3,
		Reused: 1})
	d := p.Get(2 << 20)
	expect("an oversize one", millrace.PoolStats{
		InUse: 9216 + 2<<20, InUseBlocks: 3, HighWater: 9216 + 2<<20, Taken: 4, Reused: 1,
		Oversize: 1,
	})
	b.Release()
	c.Release()
	d.Release()
	expect("all back", millrace.PoolStats{Idle: 9216, HighWater: 9216 + 2<<20, Taken: 4, Reused: 1,
		Oversize: 1})
	p.Trim()
	expect("trimmed", millrace.PoolStats{HighWater: 9216 + 2<<20, Taken: 4, Reused: 1, Oversize: 1})
}

// A block is lent again without being cleared, because clearing costs as much as filling. With
// -tags invariants it is poisoned.
func TestPoolLendsTheBlockThatCameBackLast(t *testing.T) {
	p := millrace.NewPool()
	a, b := p.Get(1000), p.Get(1000)
	first := &b.Bytes()[0]
	copy(b.Bytes(), "as it was")
	a.Release()
	b.Release()
	c := p.Get(1000)
	if &c.Bytes()[0] != first {
		t.Error("another block than the one that is still in the cache")
	}
	if !millrace.Invariants && !bytes.HasPrefix(c.Bytes(), []byte("as it was")) {
		t.Error("the block was cleared")
	}
	c.Release()
}

func TestPoolGetPanics(t *testing.T) {
	p := millrace.NewPool()
	wantPanic(t, "Get(-1)", "millrace: Get of -1 bytes; a block has 0 to 4294967295",
		func() { p.Get(-1) })
	if strconv.IntSize == 64 {
		n := int64(math.MaxUint32)
		wantPanic(t, "Get above 4 GiB", "millrace: Get of 4294967296 bytes",
			func() { p.Get(int(n + 1)) })
	}
	if s := p.Stats(); s != (millrace.PoolStats{}) {
		t.Errorf("a Get that panicked left %+v", s)
	}
}

func TestPoolIdleLimit(t *testing.T) {
	for _, test := range []struct{ limit, idle int64 }{
		{0, 0}, {1023, 0}, {1024, 1024}, {1025, 1024}, {10 << 10, 10 << 10}, {1 << 20, 20 << 10},
	} {
		p := millrace.NewPool(millrace.IdleLimit(test.limit))
		var drafts [20]millrace.Draft
		for i := range drafts {
			drafts[i] = p.Get(1024)
		}
		for i := range drafts {
			drafts[i].Release()
		}
		if s := p.Stats(); s.Idle != test.idle || s.InUse != 0 {
			t.Errorf("limit %d: %d bytes idle, want %d; %d in use", test.limit, s.Idle, test.idle,
				s.InUse)
		}
	}
}

// Many goroutines release at once, and the idle limit always holds.
func TestPoolIdleLimitUnderConcurrentUse(t *testing.T) {
	const limit = 100 << 10
	p := millrace.NewPool(millrace.IdleLimit(limit))
	var users sync.WaitGroup
	for seed := range uint64(8) {
		users.Go(func() {
			rng := rand.New(rand.NewPCG(seed, 0))
			var held []millrace.Draft
			for range rounds(4000) {
				if rng.IntN(2) == 0 {
					held = append(held, p.Get(rng.IntN(40000)))
				} else if len(held) > 0 {
					held[0].Release()
					held = held[1:]
				}
				if kept := millrace.KeptBytes(p); kept > limit {
					t.Errorf("%d bytes are kept, the limit is %d", kept, limit)
					break
				}
				if rng.IntN(500) == 0 {
					p.Trim()
				}
			}
			for i := range held {
				held[i].Release()
			}
		})
	}
	users.Wait()
	s := p.Stats()
	if s.InUse != 0 || s.InUseBlocks != 0 || s.Idle > limit || s.Idle != millrace.KeptBytes(p) {
		t.Errorf("%+v at the end, %d bytes are kept", s, millrace.KeptBytes(p))
	}
}

// Blocks that stay idle from one trim to the next are freed. Blocks that are used stay.
func TestPoolTrimsWhatWasNotNeeded(t *testing.T) {
	p := millrace.NewPool()
	now := time.Now().Add(time.Hour)
	millrace.TrimUnneeded(p, now) // too early to trim
	trim := func(after time.Duration, want int64) {
		t.Helper()
		now = now.Add(after)
		millrace.TrimUnneeded(p, now)
		if s := p.Stats(); s.Idle != want<<10 {
			t.Errorf("%d KiB idle, want %d", s.Idle>>10, want)
		}
	}
	use := func(n int) {
		var drafts [10]millrace.Draft
		for i := range n {
			drafts[i] = p.Get(1024)
		}
		for i := range n {
			drafts[i].Release()
		}
	}
	use(10)
	trim(time.Minute, 10) // all blocks were needed
	use(4)
	trim(9*time.Second, 10) // too early to decide
	trim(time.Second, 4)
	use(4)
	trim(time.Minute, 4)
	use(7) // three of them new
	trim(time.Minute, 7)
	trim(time.Minute, 0)
	use(1)
	large := p.Get(1 << 20)
	large.Release()
	p.Trim()
	trim(time.Minute, 0)
}

// A new size takes the place of a size that is no longer used, without a garbage collection. A size
// that is used occasionally stays.
func TestPoolFollowsTheSizesThatAreNeeded(t *testing.T) {
	const limit = 16 << 20
	p := millrace.NewPool(millrace.IdleLimit(limit))
	// Too early for a trim.
	millrace.TrimUnneeded(p, time.Now().Add(time.Hour))
	use := func(size, total int) (fresh uint64) {
		before := p.Stats()
		drafts := make([]millrace.Draft, total/size)
		for i := range drafts {
			drafts[i] = p.Get(size)
		}
		for i := range drafts {
			drafts[i].Release()
		}
		s := p.Stats()
		if s.Idle > limit || s.Idle != millrace.KeptBytes(p) {
			t.Errorf("%d bytes are kept, %d counted; the limit is %d", millrace.KeptBytes(p),
				s.Idle, limit)
		}
		return s.Taken - before.Taken - (s.Reused - before.Reused)
	}
	use(64<<10, limit)
	if n := use(64<<10, limit); n != 0 {
		t.Fatalf("%d blocks were allocated though all were idle", n)
	}
	use(512<<10, limit/2) // no room, for twice the number of checks
	use(512<<10, limit/2) // the blocks of 64 KiB stay idle
	if n := use(512<<10, limit/2); n != 0 {
		t.Errorf("%d blocks of the size that is needed were allocated", n)
	}
	for range 10 { // together they fill the limit
		use(512<<10, limit/2)
		use(64<<10, limit/2)
	}
	if n := use(512<<10, limit/2) + use(64<<10, limit/2); n != 0 {
		t.Errorf("%d blocks of two sizes that are needed were allocated", n)
	}
}

// Each garbage collection trims without a call from the program.
func TestPoolTrimsAfterGarbageCollections(t *testing.T) {
	p := millrace.NewPool()
	d := p.Get(1 << 20)
	d.Release()
	nettest.Eventually(t, "the idle block is gone", func() bool {
		millrace.ForgetTrim(p) // otherwise a collection would be too early
		runtime.GC()
		return p.Stats().Idle == 0
	})
}

// A Pool that is no longer used is collected, although its finalizer waits for collections.
func TestPoolIsCollected(t *testing.T) {
	p := millrace.NewPool()
	gone := weak.Make(p)
	if !millrace.Invariants { // invariants keep the stacks of the last allocations
		d := p.Get(1 << 20)
		d.Release()
	}
	p = nil
	nettest.Eventually(t, "the Pool is collected", func() bool {
		runtime.GC()
		return gone.Value() == nil
	})
}

// An account counts its loans until their last share is released, and so does its Pool.
func TestAccount(t *testing.T) {
	p := millrace.NewPool()
	one, two := p.Account(), p.Account()
	a, b, large := one.Get(1000), two.Get(5000), one.Get(2<<20)
	if n := one.Stats().InUse; n != 1024+2<<20 {
		t.Errorf("one has %d bytes in use", n)
	}
	if n := two.Stats(); n.InUse != 8192 || n.Taken != 1 {
		t.Errorf("two has %+v", n)
	}
	if n := p.Stats().InUse; n != 1024+8192+2<<20 {
		t.Errorf("the pool has %d bytes in use", n)
	}
	ref := a.Freeze(10)
	share := ref.Clone()
	ref.Release()
	large.Release()
	if n := one.Stats(); n.InUse != 1024 || n.HighWater != 1024+2<<20 {
		t.Errorf("with a share that is left, one has %+v", n)
	}
	share.Release()
	b.Release()
	for _, p := range []*millrace.Pool{one, two, p} {
		if n := p.Stats().InUse; n != 0 {
			t.Errorf("%d bytes in use at the end", n)
		}
	}
	again := two.Get(1000) // the block of the other account
	defer again.Release()
	if st := p.Stats(); st.Reused != 1 || one.Stats().InUse != 0 || two.Stats().InUse != 1024 {
		t.Errorf("%d blocks reused; one has %d bytes, two has %d", st.Reused, one.Stats().InUse,
			two.Stats().InUse)
	}
}

// A Reader with an account takes its blocks from the account.
func TestReaderSetPool(t *testing.T) {
	p := millrace.NewPool()
	account := p.Account()
	r := p.NewReader(strings.NewReader("some text"), 64)
	r.SetPool(account)
	if _, err := r.Peek(1); err != nil || account.Stats().InUse == 0 {
		t.Errorf("%v, and the account has %d bytes in use", err, account.Stats().InUse)
	}
	r.Release()
	if n := account.Stats().InUse; n != 0 {
		t.Errorf("%d bytes in use at the end", n)
	}
}

// TestPoolCountsLostBlocks checks that blocks that are garbage-collected without a Release count as
// lost, and no longer as in use. Blocks that the Pool drops are not lost.
func TestPoolCountsLostBlocks(t *testing.T) {
	if millrace.Invariants {
		t.Skip("with -tags invariants, Leaks refers to the blocks")
	}
	p := millrace.NewPool(millrace.IdleLimit(100 << 10))
	account := p.Account()
	drop := func(pool *millrace.Pool) {
		for i := range 30 {
			pool.Get(1000 << (i % 12)) // up to 2 MB
		}
		r := pool.NewReader(strings.NewReader("lost"), 0)
		r.Peek(1)
		w := pool.NewWriter(io.Discard, 0)
		w.WriteByte('a')
	}
	drop(p)
	drop(account)
	var kept []millrace.Draft
	for range 300 {
		kept = append(kept, p.Get(1000))
	}
	for i := range kept {
		kept[i].Release() // some are dropped, because of the limit
	}
	p.Trim()
	for range 100 {
		runtime.GC()
		if s := p.Stats(); s.InUse == 0 && account.Stats().InUse == 0 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	s, a := p.Stats(), account.Stats()
	if s.InUse != 0 || s.InUseBlocks != 0 || s.Lost != 64 || a.InUse != 0 || a.Lost != 32 {
		t.Errorf("after a collection: %+v, and the account %+v, want 64 and 32 lost blocks", s, a)
	}
}

// TestPoolTrimsNearMemoryLimit checks that a collection near the runtime's memory limit drops all
// idle blocks, even directly after another trim.
func TestPoolTrimsNearMemoryLimit(t *testing.T) {
	p := millrace.NewPool()
	d := p.Get(1 << 20)
	d.Release()
	millrace.TrimUnneeded(p, time.Now())
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(1 << 20)) // less than the program uses
	for range 1000 {
		runtime.GC()
		if p.Stats().Idle == 0 {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Errorf("%d bytes are idle after collections at the memory limit", p.Stats().Idle)
}
