// Package memory limits the memory of a process to a budget.
//
// A [Budget] measures the memory in use, which garbage collection cannot free:
//   - The memory blocks that the Pool has handed out. Their size is always known exactly.
//   - The rest of the heap, and the stacks. Their size is measured at each garbage collection.
//
// Idle blocks of the Pool and garbage do not count. They may fill the rest of the budget, because
// the command millrace sets Go's memory limit to the budget.
//
// A [Step] frees memory above its threshold, a number of sixteenths of the budget. The least
// harmful steps come first: they free memory that no client uses. Later steps drop frames for late
// viewers, then disconnect late viewers, and finally the client that uses the most memory. Between
// the thresholds of the last two steps, Admit begins to refuse new clients. Slow clients therefore
// never affect a client that is fast and uses less memory than others.
//
// Publishers call Check when they receive data, and wait while Check runs the steps.
//
// watch.go measures the heap in use, and returns unused memory to the system. loans.go tracks the
// responses that clients have not finished reading. A step ends the oldest of these.
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
	sixteenths = 16
	// trimAbove is a threshold in sixteenths of the budget. If the memory in use plus the idle
	// blocks exceed it, the idle blocks are freed.
	trimAbove = 12
	// If more than admitBelow/16 of the memory budget is in use, Admit refuses new clients. Most
	// Steps have a lower threshold, so memory is freed before clients are refused. Only Steps that
	// are a last resort have a higher threshold.
	admitBelow = 13
	// slowdown is the delay of a publisher if data arrives faster than memory is freed.
	slowdown = 10 * time.Millisecond
)

// A Step frees memory when the memory in use exceeds the threshold of the Step.
type Step struct {
	Name  string // for metrics and the log
	Above int    // threshold in sixteenths of the budget
	Heap  bool   // whether Free frees heap memory, which lowers Used only at the next collection
	// Free frees about excess bytes, and returns the number of bytes that it frees. It may return
	// before the memory is free, and a later call may count the same bytes again.
	Free func(excess int64) int64
}

// A Budget limits the memory of a process. A nil Budget has no limit.
type Budget struct {
	limit  int64
	pool   *millrace.Pool
	log    *slog.Logger
	steps  []Step // sorted by threshold
	lowest int64  // lowest threshold in bytes

	heap   atomic.Int64 // bytes in use outside the pool
	cycles atomic.Int64 // completed garbage collections
	// Heap bytes that Steps have freed, but that the field heap may still include.
	promised atomic.Int64
	high     atomic.Int64 // maximum of Used so far

	refused atomic.Int64
	taken   []atomic.Int64 // number of times that each step has freed something

	freeing chan struct{} // lock for the method free; has an element while locked

	// Only free uses the following fields.
	lastCare   time.Time // when a step was last logged
	promisedIn int64     // cycles when promised last grew
}

// New returns a Budget that limits the memory of the process to maxBytes. The Budget counts the
// memory blocks of pool and the rest of the heap. The caller must call Run, which measures the
// heap.
func New(maxBytes int64, pool *millrace.Pool, log *slog.Logger) *Budget {
	b := &Budget{limit: maxBytes, pool: pool, log: lock.Logger(log),
		freeing: make(chan struct{}, 1)}
	b.lowest = b.mark(trimAbove)
	return b
}

// Add adds steps, which free memory if usage exceeds their thresholds. Steps with the same
// threshold run in the order in which they were added. Add must be called before Run and before the
// first Check.
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

// Limit returns the budget in bytes.
func (b *Budget) Limit() int64 { return b.limit }

func (b *Budget) mark(n int) int64 { return b.limit / sixteenths * int64(n) }

// Used returns the number of bytes in use.
func (b *Budget) Used() int64 { return b.pool.Stats().InUse + b.heap.Load() }

// retryAfter is the time after which a refused client should try again. In this time, clients that
// use too much memory are disconnected.
const retryAfter = 5 * time.Second

// Short returns a Refusal that says that memory is short. The argument reason is the text for the
// client.
func Short(reason string) *refuse.Refusal {
	return refuse.New(http.StatusServiceUnavailable, "%s (--memory)",
		reason).For(refuse.Memory).After(retryAfter)
}

// Admit returns a [refuse.Refusal] if there is no memory for another client.
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

// Check frees memory if too much is in use. Call it before allocating memory. It may block.
func (b *Budget) Check() {
	if b == nil {
		return
	}
	used := b.Used()
	for high := b.high.Load(); used > high && !b.high.CompareAndSwap(high, used); {
		high = b.high.Load()
	}
	last := b.mark(sixteenths - 1)
	if used > last { // wait until no other goroutine runs the steps
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

// free drops the idle memory blocks if the memory in use plus the idle blocks exceed trimAbove. It
// then runs each [Step] whose threshold is exceeded. The caller must hold the lock b.freeing.
func (b *Budget) free() {
	if st := b.pool.Stats(); b.heap.Load()+st.InUse+st.Idle > b.mark(trimAbove) && st.Idle > 0 {
		b.pool.Trim()
	}
	// b.promised is the number of bytes that Steps have freed, but that the measured heap still
	// includes. The measured heap no longer includes these bytes after two garbage collections. One
	// collection is not enough, because it may have begun before a Step freed the bytes.
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
			// A separate goroutine writes the log, because the log may block while publishers wait
			// for this goroutine.
			go b.log.Warn("memory is short", "step", s.Name, "freed", n, "used", used, "budget",
				b.limit)
		}
	}
}

// Stats is a snapshot of a Budget.
type Stats struct {
	Limit   int64 // 0 if there is no budget
	Used    int64
	High    int64            // maximum of Used so far
	Heap    int64            // the part of Used outside the pool
	Mapped  int64            // memory from the system, including idle blocks and garbage
	Refused int64            // clients that Admit has refused
	Taken   map[string]int64 // number of times that each step has freed something
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
