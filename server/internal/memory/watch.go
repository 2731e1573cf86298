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
	// watchEvery is how often a Budget looks without being asked.
	watchEvery = 100 * time.Millisecond
	// collectAfter is the maximum age of the measured heap above half of the budget. Then a
	// collection measures it again: the runtime may not collect for two minutes.
	collectAfter = time.Second
	// giveEvery is how often memory that is not in use may go back to the system. Twice that is
	// within a minute.
	giveEvery = 20 * time.Second
	// giveBytes is how much that is at least: less is not worth to be got again.
	giveBytes = 32 << 20
)

// Run watches until ctx ends.
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
	var allocated int64 // when memory was given back last, or could have been
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
			// Memory allocated since the last look would be allocated again.
			if grown := r.allocated - allocated; idle > giveBytes && grown < idle {
				b.pool.Trim()
				debug.FreeOSMemory()
			}
			given, allocated = at, r.allocated
		}
	}
}

// afterGC records how much of the heap is in use after each garbage collection, until the caller
// calls stop.
func (b *Budget) afterGC() (stop func()) {
	var stopped atomic.Bool
	type sentinel struct{ _ *byte }
	var rearm func(s *sentinel)
	// Blocks found in use may have come back since, so the least of a few collections is the best
	// estimate.
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

// bound corrects the measured heap: the memory in use cannot exceed that of all objects, garbage
// included.
func (b *Budget) bound(r *runtimeStats) {
	st := b.pool.Stats()
	if most := max(0, r.objects-st.InUse-st.Idle) + r.overhead; b.heap.Load() > most {
		b.heap.Store(most)
	}
}
