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
	watchEvery = 100 * time.Millisecond
	// collectAfter is the maximum age of the heap measurement if more than half of the budget is in
	// use. Each garbage collection measures the heap. If the measurement is too old, Run starts a
	// collection to get a new one. Otherwise the runtime might not collect for two minutes.
	collectAfter = time.Second
	// giveEvery is the time between two checks for unused memory that can be returned to the
	// system.
	giveEvery = 20 * time.Second
	// giveBytes is the minimum number of unused bytes that Run returns to the system. Returning
	// less is not worth the cost.
	giveBytes = 32 << 20
)

// Run measures the memory in use until ctx ends, and frees memory if too much is in use. It also
// starts garbage collections and returns unused memory to the system.
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
	var allocated int64 // r.allocated at the last check for unused memory
	for {
		select {
		case <-ctx.Done():
			return
		case at := <-tick.C:
			r.read()
			b.cycles.Store(int64(r.cycles))
			b.lowerHeap(&r)
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
			// Return the idle memory to the system. If the process has allocated at least as many
			// bytes since the last check, keep the memory, because the process will probably need
			// it again soon.
			if grown := r.allocated - allocated; idle > giveBytes && grown < idle {
				b.pool.Trim()
				debug.FreeOSMemory()
			}
			given, allocated = at, r.allocated
		}
	}
}

// afterGC starts to measure the heap in use after each garbage collection. The caller must call
// stop to end the measurements.
func (b *Budget) afterGC() (stop func()) {
	var stopped atomic.Bool
	type sentinel struct{ _ *byte }
	var rearm func(s *sentinel)
	// A measurement is the live memory at a garbage collection, minus the pool's memory a moment
	// later. If memory blocks have left the pool in between, the measurement is too high. The
	// lowest of the last three measurements is therefore the best one.
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
		b.lowerHeap(&r)
		runtime.SetFinalizer(s, rearm)
	}
	runtime.SetFinalizer(new(sentinel), rearm)
	return func() { stopped.Store(true) }
}

// lowerHeap lowers the measured size of the heap in use if the measurement is too high. The upper
// limit is the size of all heap objects, including garbage, plus the memory of stacks and of the
// runtime.
func (b *Budget) lowerHeap(r *runtimeStats) {
	st := b.pool.Stats()
	if most := max(0, r.objects-st.InUse-st.Idle) + r.overhead; b.heap.Load() > most {
		b.heap.Store(most)
	}
}
