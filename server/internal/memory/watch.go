package memory

import (
	"context"
	"runtime"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"
)

const (
	// watchEvery is the interval at which Run checks the budget.
	watchEvery = 100 * time.Millisecond
	// collectAfter is the maximum age of the heap measurement when more than half of the budget is
	// in use. Run forces a collection when the measurement is older, because the runtime might not
	// collect for two minutes.
	collectAfter = time.Second
	// giveEvery is the smallest interval between returns of unused memory to the system. It may
	// take two intervals until unused memory is returned, which is still less than a minute.
	giveEvery = 20 * time.Second
	// giveBytes is the smallest amount of unused memory that is returned, in bytes. Less is not
	// worth the cost of obtaining it again.
	giveBytes = 32 << 20
)

// Run measures and frees memory until ctx ends.
func (b *Budget) Run(ctx context.Context) {
	if b == nil {
		return
	}
	defer b.afterGC()()
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	r := newRuntimeStats()
	var collected, given time.Time
	var cycle uint64
	var allocated int64 // r.allocated when the last decision about returning memory was made
	for {
		select {
		case <-ctx.Done():
			return
		case at := <-tick.C:
			r.read()
			b.cycles.Store(int64(r.cycles))
			b.bound(&r)
			b.Check()
			if r.cycles != cycle {
				cycle, collected = r.cycles, at
			}
			idle := r.mapped - b.Used()
			if b.Used() > b.limit/2 && at.Sub(collected) > collectAfter ||
				r.mapped-b.pool.Stats().InUse > giveBytes+b.limit/64 &&
					at.Sub(collected) > giveEvery {
				runtime.GC()
			}
			if at.Sub(given) < giveEvery {
				continue
			}
			// If the process has allocated as much as is idle since the last check, it will need
			// the memory again.
			if grown := r.allocated - allocated; idle > giveBytes && grown < idle {
				b.pool.Trim()
				debug.FreeOSMemory()
			}
			given, allocated = at, r.allocated
		}
	}
}

// afterGC measures the heap in use after each garbage collection, until stop is called.
func (b *Budget) afterGC() (stop func()) {
	var stopped atomic.Bool
	type sentinel struct{ _ *byte }
	var rearm func(s *sentinel)
	// A collection may count blocks that have since been returned to the pool, so the lowest of
	// several measurements is the best estimate.
	var last [3]int64
	n := 0
	rearm = func(s *sentinel) {
		if stopped.Load() {
			return
		}
		r := newRuntimeStats()
		r.read()
		st := b.pool.Stats()
		last[n%len(last)] = max(0, r.live-st.InUse-st.Idle) + r.overhead
		n++
		b.heap.Store(slices.Min(last[:min(n, len(last))]))
		b.bound(&r)
		runtime.SetFinalizer(s, rearm)
	}
	runtime.SetFinalizer(new(sentinel), rearm)
	return func() { stopped.Store(true) }
}

// bound lowers the measurement of the heap if it is too high. The memory in use cannot exceed the
// size of all objects, including garbage.
func (b *Budget) bound(r *runtimeStats) {
	st := b.pool.Stats()
	if most := max(0, r.objects-st.InUse-st.Idle) + r.overhead; b.heap.Load() > most {
		b.heap.Store(most)
	}
}
