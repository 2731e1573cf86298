package measure

import (
	"runtime"
	"time"
)

// A Turn is what a contender's turn took, all told.
type Turn struct {
	Time          time.Duration
	CPU           time.Duration // of all threads, the collector's among them
	Bytes, Allocs uint64        // on the heap
	GCs           uint32        // cycles of the collector
}

// Take runs f and returns what it took. The process is not to do anything else meanwhile.
func Take(f func()) Turn {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu, began := CPU(), time.Now()
	f()
	took, cpu := time.Since(began), CPU()-cpu
	runtime.ReadMemStats(&after)
	return Turn{
		Time: took, CPU: cpu,
		Bytes: after.TotalAlloc - before.TotalAlloc, Allocs: after.Mallocs - before.Mallocs,
		GCs: after.NumGC - before.NumGC,
	}
}

// A Cost is what an operation takes, a value for each round.
type Cost struct {
	Nanos  Series // of time that passes
	CPU    Series // nanoseconds of all threads, the collector's among them
	Bytes  Series // allocated
	Allocs Series
	GCs    Series // cycles of the collector, for a million operations
}

// Add adds a round in which n operations took t.
func (c *Cost) Add(t Turn, n int) {
	each := 1 / float64(n)
	c.Nanos = append(c.Nanos, float64(t.Time.Nanoseconds())*each)
	c.CPU = append(c.CPU, float64(t.CPU.Nanoseconds())*each)
	c.Bytes = append(c.Bytes, float64(t.Bytes)*each)
	c.Allocs = append(c.Allocs, float64(t.Allocs)*each)
	c.GCs = append(c.GCs, float64(t.GCs)*1e6*each)
}
