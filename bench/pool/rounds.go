package pool

import (
	"runtime"
	"time"

	"github.com/millrace-io/millrace/bench/measure"
	"github.com/millrace-io/millrace/internal/crossover"
)

// warmUp is how many operations fill the pools before the clock starts.
const warmUp = 4 * freeList

// Result is one contender with one size in one mode.
type Result struct {
	Contender    Contender
	measure.Cost // of an operation
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
		for _, i := range crossover.Order(len(contenders), round) {
			results[i].Add(turn(m, contenders[i], size, times[i]), times[i]*m.procs())
		}
	}
	return results
}

// calibrate returns how many operations each goroutine does in d.
func calibrate(m Mode, c Contender, size int, d time.Duration) int {
	for n := 1; ; n *= 2 {
		if took := turn(m, c, size, n).Time; took >= d/4 {
			return max(1, int(float64(n)*float64(d)/float64(took)))
		}
	}
}

// turn does n operations on every processor that takes part.
func turn(m Mode, c Contender, size, n int) measure.Turn {
	w := c.open(size)
	runtime.GC() // nobody pays for the garbage of the one before
	m.do(w, warmUp)
	return measure.Take(func() { m.do(w, n) })
}
