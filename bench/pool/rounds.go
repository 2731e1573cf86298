package pool

import (
	"runtime"
	"time"

	"github.com/millrace-io/millrace/bench/measure"
)

// warmUp is how many operations fill the pools before the clock starts.
const warmUp = 4 * freeList

// Result is one contender with one size in one mode, a value for each round, all of them an operation.
type Result struct {
	Contender     Contender
	Nanos         measure.Series // of time that passes
	CPU           measure.Series // nanoseconds of all threads, the collector's among them
	Bytes, Allocs measure.Series // allocated
}

// Measure gives every contender a turn of about d in every round, in turns.
func Measure(m Mode, contenders []Contender, size, rounds int, d time.Duration) []Result {
	results := make([]Result, len(contenders))
	times := make([]int, len(contenders))
	for i, c := range contenders {
		results[i].Contender = c
		times[i] = calibrate(m, c, size, d)
	}
	for round := range rounds {
		for k := range contenders {
			// Every round begins with another one, so that nobody always follows the same neighbour.
			i := (k + round) % len(contenders)
			results[i].add(turn(m, contenders[i], size, times[i]))
		}
	}
	return results
}

// calibrate returns how many operations each goroutine does in d.
func calibrate(m Mode, c Contender, size int, d time.Duration) int {
	for n := 1; ; n *= 2 {
		if took := turn(m, c, size, n).nanos * float64(n*m.procs()); took >= float64(d)/4 {
			return max(1, int(float64(n)*float64(d)/took))
		}
	}
}

// taken is what an operation took.
type taken struct{ nanos, cpu, bytes, allocs float64 }

func (r *Result) add(t taken) {
	r.Nanos = append(r.Nanos, t.nanos)
	r.CPU = append(r.CPU, t.cpu)
	r.Bytes = append(r.Bytes, t.bytes)
	r.Allocs = append(r.Allocs, t.allocs)
}

// turn does n operations on every processor that takes part, and divides by all of them.
func turn(m Mode, c Contender, size, n int) taken {
	w := c.open(size)
	runtime.GC() // nobody pays for the garbage of the one before
	m.do(w, warmUp)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu, began := measure.CPU(), time.Now()
	m.do(w, n)
	took, cpu := time.Since(began), measure.CPU()-cpu
	runtime.ReadMemStats(&after)
	all := float64(n * m.procs())
	return taken{
		nanos:  float64(took.Nanoseconds()) / all,
		cpu:    float64(cpu.Nanoseconds()) / all,
		bytes:  float64(after.TotalAlloc-before.TotalAlloc) / all,
		allocs: float64(after.Mallocs-before.Mallocs) / all,
	}
}
