package measure

import (
	"context"
	"fmt"
	"runtime"
	"syscall"
	"time"
)

// A Turn records the total cost of a contender's operations.
type Turn struct {
	Ops           int // number of operations
	Time          time.Duration
	CPU           time.Duration // all threads of the process, including the garbage collector's
	Bytes, Allocs uint64        // allocated on the heap
	GCs           uint32        // garbage collection cycles

	// More has additional values by name. They are not divided by Ops.
	More map[string]float64
}

// Take runs the function f, which performs ops operations, and returns the cost. Nothing else may
// run in the process meanwhile, because Take measures the whole process.
func Take(ops int, f func()) Turn {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu, began := CPU(), time.Now()
	f()
	took, cpu := time.Since(began), CPU()-cpu
	runtime.ReadMemStats(&after)
	return Turn{
		Ops: ops, Time: took, CPU: cpu,
		Bytes: after.TotalAlloc - before.TotalAlloc, Allocs: after.Mallocs - before.Mallocs,
		GCs: after.NumGC - before.NumGC,
	}
}

// CPU returns the CPU time that this process has used, in user and system mode.
func CPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// A Cost is the cost of one operation, with one value for each round.
type Cost struct {
	Nanos  Series // wall-clock time, in nanoseconds
	CPU    Series // nanoseconds in all threads, including the garbage collector's
	Bytes  Series // allocated on the heap
	Allocs Series
	GCs    Series // garbage collection cycles per million operations
	More   map[string]Series
}

// Add divides the costs in t by the number of operations, and appends each result to its Series.
// The values in t.More are not divided.
func (c *Cost) Add(t Turn) {
	each := 1 / float64(t.Ops)
	c.Nanos = append(c.Nanos, float64(t.Time.Nanoseconds())*each)
	c.CPU = append(c.CPU, float64(t.CPU.Nanoseconds())*each)
	c.Bytes = append(c.Bytes, float64(t.Bytes)*each)
	c.Allocs = append(c.Allocs, float64(t.Allocs)*each)
	c.GCs = append(c.GCs, float64(t.GCs)*1e6*each)
	for name, v := range t.More {
		if c.More == nil {
			c.More = make(map[string]Series)
		}
		c.More[name] = append(c.More[name], v)
	}
}

// A Contender is one of the implementations that Compare measures.
type Contender struct {
	Name string
	// Turn performs n operations and returns their cost, excluding the cost of preparations.
	Turn func(n int) (Turn, error)
}

// Compare measures every contender once per round, for about the duration d each time. The result
// has one Cost for each contender, in the order of contenders.
func Compare(ctx context.Context, contenders []Contender, rounds int, d time.Duration) ([]Cost,
	error) {
	costs := make([]Cost, len(contenders))
	times := make([]int, len(contenders))
	for i, c := range contenders {
		var err error
		if times[i], err = c.calibrate(ctx, d); err != nil {
			return nil, fmt.Errorf("%s: %w", c.Name, err)
		}
	}
	err := Rounds(ctx, len(contenders), rounds, func(_, i int) error {
		runtime.GC() // so that a contender does not pay for the previous one's garbage
		t, err := contenders[i].Turn(times[i])
		if err != nil {
			return fmt.Errorf("%s: %w", contenders[i].Name, err)
		}
		costs[i].Add(t)
		return nil
	})
	return costs, err
}

// calibrate returns the number of operations that take about the duration d.
func (c Contender) calibrate(ctx context.Context, d time.Duration) (int, error) {
	for n := 1; ; n *= 2 {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		t, err := c.Turn(n)
		if err != nil {
			return 0, err
		}
		if t.Time >= d/4 {
			return max(1, int(float64(n)*float64(d)/float64(t.Time))), nil
		}
	}
}
