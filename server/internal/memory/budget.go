// Package memory keeps a process within a budget of bytes.
//
// A [Budget] knows the memory in use, which garbage collection cannot free: the blocks that the
// Pool has lent, which it knows exactly at any moment; and the rest of the heap as of the last
// collection, with stacks. Idle blocks and garbage are not in use. They may fill the rest of the
// budget, because the command sets Go's memory limit to the budget.
//
// Above marks, in sixteenths of the budget, steps free memory, the least harmful first: memory that
// no client uses, then frames kept for late viewers, then late viewers, and last the largest
// holder. A step frees only the excess above its mark. Between the last two steps, Admit refuses
// new clients. So a holder that keeps up, and holds less than others, is never affected by one that
// does not. Publishers call Check as they receive: the goroutine of the publisher that needs the
// memory takes the steps, and waits for them.
//
// watch.go measures how much of the heap is in use, and returns unused memory. loans.go tracks the
// responses that clients have not read, and ends the oldest ones in a step.
package memory

import (
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/server/internal/lock"
	"github.com/millrace-io/millrace/server/internal/refuse"
)

const (
	// sixteenths is the unit of marks.
	sixteenths = 16
	// trimAbove is the mark for idle blocks together with the memory in use.
	trimAbove = 12
	// admitBelow is the mark of Admit. It is above the marks of all steps but the last.
	admitBelow = 13
	// slowdown is how long a publisher waits at each Check while memory cannot be freed as fast as
	// it comes.
	slowdown = 10 * time.Millisecond
)

// A Step frees memory when more than Above sixteenths of the budget are in use.
type Step struct {
	Name  string // for metrics and the log
	Above int
	Heap  bool // it frees memory of the heap, which Used shows only after the next collection
	// Free lets go of about excess bytes, if there are so many, and returns how many go. They may
	// go a little later; then Free counts them again when it is called meanwhile.
	Free func(excess int64) int64
}

// A Budget bounds the memory of a process. A nil Budget bounds nothing.
type Budget struct {
	limit  int64
	pool   *millrace.Pool
	log    *slog.Logger
	steps  []Step // by mark
	lowest int64  // nothing is done below

	heap   atomic.Int64 // bytes in use outside of the pool
	cycles atomic.Int64 // collections so far
	// promised is how many bytes of heap the steps have freed, and heap does not know that yet.
	promised atomic.Int64
	high     atomic.Int64 // the most that was in use

	refused atomic.Int64
	taken   []atomic.Int64 // by step: how often it has freed something

	freeing chan struct{} // has room for one: the goroutine that takes the steps

	// Of the goroutine that takes the steps.
	lastCare   time.Time // when that was logged last
	promisedIn int64     // cycles when promised was raised last
}

// New returns a Budget of limit bytes for the blocks of p and the rest of the heap. Run starts its
// work.
func New(limit int64, p *millrace.Pool, log *slog.Logger) *Budget {
	b := &Budget{limit: limit, pool: p, log: lock.Logger(log), freeing: make(chan struct{}, 1)}
	b.lowest = b.mark(trimAbove)
	return b
}

// Add adds steps. Steps with the same mark run in their order. Add must be called before Run, and
// before the first Check.
func (b *Budget) Add(steps ...Step) {
	if b == nil {
		return
	}
	for _, s := range steps {
		b.lowest = min(b.lowest, b.mark(s.Above))
	}
	b.steps = append(b.steps, steps...)
	slices.SortStableFunc(b.steps, func(x, y Step) int { return x.Above - y.Above })
	b.taken = make([]atomic.Int64, len(b.steps))
}

// Limit returns the budget.
func (b *Budget) Limit() int64 { return b.limit }

// mark returns n sixteenths of the budget.
func (b *Budget) mark(n int) int64 { return b.limit / sixteenths * int64(n) }

// Used returns how many bytes are in use.
func (b *Budget) Used() int64 { return b.pool.Stats().InUse + b.heap.Load() }

// retryAfter is when a refused client should try again: by then, clients that hold too much have
// been disconnected.
const retryAfter = 5 * time.Second

// Short returns the refusal of clients while memory is short, with a reason.
func Short(reason string) *refuse.Refusal {
	return refuse.New(http.StatusServiceUnavailable, "%s (--memory)",
		reason).For(refuse.Memory).After(retryAfter)
}

// Admit returns a [refuse.Refusal] if there is no memory for another publisher, viewer or transfer.
func (b *Budget) Admit() error {
	if b == nil {
		return nil
	}
	if used := b.Used() - b.promised.Load(); used > b.mark(admitBelow) {
		b.refused.Add(1)
		return Short(fmt.Sprintf("the server's memory is in use: %d of %d MiB", used>>20,
			b.limit>>20))
	}
	return nil
}

// Check frees memory if too much is in use. Goroutines that allocate call it.
func (b *Budget) Check() {
	if b == nil {
		return
	}
	used := b.Used()
	for high := b.high.Load(); used > high && !b.high.CompareAndSwap(high, used); {
		high = b.high.Load()
	}
	last := b.mark(sixteenths - 1)
	if used > last { // wait until another goroutine has freed memory
		b.freeing <- struct{}{}
	} else {
		if used+b.pool.Stats().Idle <= b.lowest {
			return
		}
		select {
		case b.freeing <- struct{}{}:
		default:
			return
		}
	}
	b.free()
	<-b.freeing
	if b.Used() > last {
		time.Sleep(slowdown)
	}
}

// free takes the steps. One goroutine at a time calls it.
func (b *Budget) free() {
	if st := b.pool.Stats(); b.heap.Load()+st.InUse+st.Idle > b.mark(trimAbove) && st.Idle > 0 {
		b.pool.Trim()
	}
	// A collection that was under way when memory was freed may have found it in use.
	if b.cycles.Load() > b.promisedIn+1 {
		b.promised.Store(0)
	}
	for i, s := range b.steps {
		used := b.Used() - b.promised.Load()
		excess := used - b.mark(s.Above)
		if excess <= 0 {
			continue
		}
		n := s.Free(excess)
		if n > 0 {
			b.taken[i].Add(1)
			if s.Heap {
				b.promised.Add(n)
				b.promisedIn = b.cycles.Load()
			}
		}
		if n > 0 && time.Since(b.lastCare) > time.Second {
			b.lastCare = time.Now()
			// In another goroutine: the log may block, and publishers wait for this one.
			go b.log.Warn("memory is short", "step", s.Name, "freed", n, "used", used, "budget",
				b.limit)
		}
	}
}

// Stats describes a process's memory.
type Stats struct {
	Limit   int64 // 0: none
	Used    int64
	High    int64            // the most that was in use
	Heap    int64            // the part of Used outside of the pool
	Mapped  int64            // the process's memory, including idle blocks and garbage
	Refused int64            // refusals by Admit
	Taken   map[string]int64 // by step: how often it has freed something
}

// Stats returns a snapshot.
func (b *Budget) Stats() Stats {
	r := newRuntimeStats()
	r.read()
	if b == nil {
		return Stats{Mapped: r.mapped}
	}
	st := Stats{Limit: b.limit, Used: b.Used(), Heap: b.heap.Load(), Mapped: r.mapped,
		Refused: b.refused.Load(),
		Taken:   make(map[string]int64)}
	st.High = max(b.high.Load(), st.Used)
	for i, s := range b.steps {
		st.Taken[s.Name] += b.taken[i].Load()
	}
	return st
}
