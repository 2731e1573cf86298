package reader

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace/bench/measure"
)

// warmUp is how many packets are read before the clock starts: enough to size
// every buffer and fill every pool.
const warmUp = 20_000

// Result is one contender in one workload, a value for each round.
type Result struct {
	Workload  Workload
	Contender Contender
	Nanos     measure.Series // a packet
	Bytes     measure.Series // allocated a packet
	Allocs    measure.Series // a packet
}

// Measure gives every contender a turn of about d in every round.
func Measure(w Workload, contenders []Contender, rounds int, d time.Duration) []Result {
	results := make([]Result, len(contenders))
	packets := make([]int, len(contenders))
	for i, c := range contenders {
		results[i] = Result{Workload: w, Contender: c}
		packets[i] = max(1, int(float64(d)/turn(w, c, 50_000).nanos))
	}
	for round := range rounds {
		for k := range contenders {
			i := (k + round) % len(contenders)
			r := turn(w, contenders[i], packets[i])
			results[i].Nanos = append(results[i].Nanos, r.nanos)
			results[i].Bytes = append(results[i].Bytes, r.bytes)
			results[i].Allocs = append(results[i].Allocs, r.allocs)
		}
	}
	return results
}

// taken is what a packet took.
type taken struct{ nanos, bytes, allocs float64 }

// turn reads n packets on every processor that takes part, and divides by all
// of them.
func turn(w Workload, c Contender, n int) taken {
	procs := 1
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
			run := w.Open(c, 1)
			defer run.Close()
			run.Packets(warmUp)
			warm.Done()
			<-start
			run.Packets(n)
		})
	}
	warm.Wait()
	runtime.GC() // nobody pays for the garbage of the one before
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := time.Now()
	close(start)
	done.Wait()
	took := time.Since(began)
	runtime.ReadMemStats(&after)
	all := float64(n * procs)
	return taken{
		nanos:  float64(took.Nanoseconds()) / all,
		bytes:  float64(after.TotalAlloc-before.TotalAlloc) / all,
		allocs: float64(after.Mallocs-before.Mallocs) / all,
	}
}
