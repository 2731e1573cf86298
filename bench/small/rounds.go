package small

import (
	"runtime"
	"time"

	"github.com/millrace-io/millrace/bench/measure"
	"github.com/millrace-io/millrace/internal/crossover"
)

// Result is one way to do a case.
type Result struct{ measure.Cost }

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
		for _, i := range crossover.Order(len(works), round) {
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
	r.Add(measure.Take(func() { w(n) }), n)
}
