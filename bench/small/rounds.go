package small

import (
	"runtime"
	"time"

	"github.com/millrace-io/millrace/bench/measure"
)

// Result is one way to do a case, a value for each round.
type Result struct {
	Nanos  measure.Series // once
	Bytes  measure.Series // allocated
	Allocs measure.Series
}

// Measure gives each of the works of c a turn of about d in every round, in
// turns. Those that are nil have no values.
func Measure(c Case, rounds int, d time.Duration) (bytes, stackbuf, builder Result) {
	works := []Work{c.Bytes, c.Stackbuf, c.Builder}
	results := make([]Result, len(works))
	times := make([]int, len(works))
	for i, w := range works {
		if w != nil {
			times[i] = calibrate(w, d)
		}
	}
	for round := range rounds {
		for k := range works {
			i := (k + round) % len(works)
			if works[i] != nil {
				results[i].turn(works[i], times[i])
			}
		}
	}
	return results[0], results[1], results[2]
}

// calibrate returns how many times w is done in d.
func calibrate(w Work, d time.Duration) int {
	for n := 1; ; n *= 2 {
		began := time.Now()
		w(n)
		if took := time.Since(began); took >= d/4 {
			return max(1, int(float64(n)*float64(d)/float64(took)))
		}
	}
}

func (r *Result) turn(w Work, n int) {
	runtime.GC() // nobody pays for the garbage of the one before
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := time.Now()
	w(n)
	took := time.Since(began)
	runtime.ReadMemStats(&after)
	r.Nanos = append(r.Nanos, float64(took.Nanoseconds())/float64(n))
	r.Bytes = append(r.Bytes, float64(after.TotalAlloc-before.TotalAlloc)/float64(n))
	r.Allocs = append(r.Allocs, float64(after.Mallocs-before.Mallocs)/float64(n))
}
