package reader

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace/bench/measure"
	"github.com/millrace-io/millrace/internal/crossover"
)

// warmUp is how many packets are read before the clock starts: enough to size
// every buffer and fill every pool.
const warmUp = 20_000

// Result is one contender in one workload, a value for each round.
type Result struct {
	Workload     Workload
	Contender    Contender
	measure.Cost // of a packet
}

// Measure gives every contender a turn of about d in every round.
func Measure(w Workload, contenders []Contender, rounds int, d time.Duration) []Result {
	results := make([]Result, len(contenders))
	packets := make([]int, len(contenders))
	for i, c := range contenders {
		results[i] = Result{Workload: w, Contender: c}
		packets[i] = max(1, int(float64(d)/probe(w, c)))
	}
	for round := range rounds {
		for _, i := range crossover.Order(len(contenders), round) {
			results[i].turn(packets[i])
		}
	}
	return results
}

// probe returns how many nanoseconds a packet takes, about.
func probe(w Workload, c Contender) float64 {
	r := Result{Workload: w, Contender: c}
	r.turn(50_000)
	return r.Nanos[0]
}

// turn reads n packets on every processor that takes part, and divides by all
// of them.
func (r *Result) turn(n int) {
	w, procs := r.Workload, 1
	if w.Parallel {
		procs = runtime.GOMAXPROCS(0)
	}
	var opened atomic.Int32
	var warm, done sync.WaitGroup
	warm.Add(procs)
	start := make(chan struct{})
	for range procs {
		done.Go(func() {
			// Everybody is on a processor before anybody allocates, so
			// that no two runs get neighbours on one cache line.
			opened.Add(1)
			for opened.Load() < int32(procs) {
			}
			run := w.Open(r.Contender, 1)
			defer run.Close()
			run.Packets(warmUp)
			warm.Done()
			<-start
			run.Packets(n)
		})
	}
	warm.Wait()
	runtime.GC() // nobody pays for the garbage of the one before
	r.Add(measure.Take(func() {
		close(start)
		done.Wait()
	}), n*procs)
}
