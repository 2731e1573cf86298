package arena

import (
	"runtime"
	"time"

	"github.com/millrace-io/millrace/bench/measure"
	"github.com/millrace-io/millrace/internal/crossover"
)

// warmUp is how much of a turn is done before the clock starts: an eighth, but
// not less than the first and not more than the second.
const (
	leastWarmUp = 64
	mostWarmUp  = 1024
)

// Result is one contender. The crate's has no Bytes, no Allocs and no GCs.
type Result struct {
	measure.Cost                // of an operation
	OnHeap       measure.Series // frames that were not in the memory that is there for them
}

// A Turner does n operations and adds to r what one of them took.
type Turner interface {
	Turn(n int, r *Result) error
}

// goTurner does work in Go, in a new buffer each turn, so that nobody's memory
// makes the collector come more seldom to others.
type goTurner struct {
	open  func(Shape) Work
	shape Shape
}

func (t goTurner) Turn(n int, r *Result) error {
	w := t.open(t.shape)
	w.Do(min(max(n/8, leastWarmUp), mostWarmUp))
	runtime.GC() // nobody pays for the garbage of the one before
	before := onHeap(w.buffer)
	r.Add(measure.Take(func() { w.Do(n) }), n)
	r.OnHeap = append(r.OnHeap, float64(onHeap(w.buffer)-before)/float64(n))
	return nil
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
		for _, i := range crossover.Order(len(turners), round) {
			if err := turners[i].Turn(times[i], &results[i]); err != nil {
				return nil, err
			}
		}
	}
	return results, nil
}

// calibrate returns how many times an operation is done in d.
func calibrate(t Turner, d time.Duration) (int, error) {
	for n := 1; ; n *= 2 {
		var r Result
		if err := t.Turn(n, &r); err != nil {
			return 0, err
		}
		if nanos := r.Nanos[0]; nanos*float64(n) >= float64(d)/4 {
			return max(1, int(float64(d)/nanos)), nil
		}
	}
}
