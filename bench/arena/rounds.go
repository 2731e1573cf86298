package arena

import (
	"runtime"
	"syscall"
	"time"

	"github.com/millrace-io/millrace/bench/measure"
)

// warmUp is how much of a turn is done before the clock starts: an eighth, but
// not less than the first and not more than the second.
const (
	leastWarmUp = 64
	mostWarmUp  = 1024
)

// Taken is what one operation took in a turn.
type Taken struct {
	Nanos  float64
	CPU    float64 // nanoseconds, of all threads
	Bytes  float64 // allocated
	Allocs float64
	OnHeap float64 // frames that were not in the memory that is there for them
}

// A Turner does n operations and says what one of them took.
type Turner interface {
	Turn(n int) (Taken, error)
}

// goTurner does work in Go, in a new buffer each turn, so that nobody's memory
// makes the collector come more seldom to others.
type goTurner struct {
	open  func(Shape) Work
	shape Shape
}

func (t goTurner) Turn(n int) (Taken, error) {
	w := t.open(t.shape)
	w.Do(min(max(n/8, leastWarmUp), mostWarmUp))
	runtime.GC() // nobody pays for the garbage of the one before
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	heapBefore, cpuBefore := onHeap(w.buffer), cpuTime()
	began := time.Now()
	w.Do(n)
	took := time.Since(began)
	cpu := cpuTime() - cpuBefore
	runtime.ReadMemStats(&after)
	return Taken{
		Nanos:  float64(took) / float64(n),
		CPU:    float64(cpu) / float64(n),
		Bytes:  float64(after.TotalAlloc-before.TotalAlloc) / float64(n),
		Allocs: float64(after.Mallocs-before.Mallocs) / float64(n),
		OnHeap: float64(onHeap(w.buffer)-heapBefore) / float64(n),
	}, nil
}

// cpuTime is what the process has used so far.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Result is one contender, a value for each round. The crate's has no Bytes and
// no Allocs.
type Result struct {
	Nanos, CPU, Bytes, Allocs, OnHeap measure.Series
}

// Measure gives each Turner a turn of about d in every round.
func Measure(turners []Turner, rounds int, d time.Duration) ([]Result, error) {
	results := make([]Result, len(turners))
	times := make([]int, len(turners))
	for i, t := range turners {
		var err error
		if times[i], err = calibrate(t, d); err != nil {
			return nil, err
		}
	}
	for round := range rounds {
		for k := range turners {
			i := (k + round) % len(turners)
			taken, err := turners[i].Turn(times[i])
			if err != nil {
				return nil, err
			}
			results[i].add(taken, turners[i])
		}
	}
	return results, nil
}

func (r *Result) add(t Taken, by Turner) {
	r.Nanos = append(r.Nanos, t.Nanos)
	r.CPU = append(r.CPU, t.CPU)
	r.OnHeap = append(r.OnHeap, t.OnHeap)
	if _, ok := by.(goTurner); ok {
		r.Bytes = append(r.Bytes, t.Bytes)
		r.Allocs = append(r.Allocs, t.Allocs)
	}
}

// calibrate returns how many times an operation is done in d.
func calibrate(t Turner, d time.Duration) (int, error) {
	for n := 1; ; n *= 2 {
		taken, err := t.Turn(n)
		if err != nil {
			return 0, err
		}
		if taken.Nanos*float64(n) >= float64(d)/4 {
			return max(1, int(float64(d)/taken.Nanos)), nil
		}
	}
}
