package chunk

import (
	"fmt"
	"runtime"
	"time"

	"github.com/millrace-io/millrace/bench/measure"
	"github.com/millrace-io/millrace/internal/crossover"
)

// Result is one contender in one case.
type Result struct {
	Name         string
	measure.Cost // of a run
}

// A way is a contender at work.
type way struct {
	name string
	run  func() error // once; an error says that it has not done what it must

	// What else is measured in a turn: nil, or called before and after.
	begin, end func()
}

// take gives every way a turn of about d in every round, in turns.
func take(ways []way, rounds int, d time.Duration) ([]Result, error) {
	results := make([]Result, len(ways))
	runs := make([]int, len(ways))
	for i, w := range ways {
		results[i].Name = w.name
		began := time.Now()
		if err := w.repeat(probes); err != nil {
			return nil, err
		}
		runs[i] = max(1, int(probes*d/max(1, time.Since(began))))
	}
	for round := range rounds {
		for _, i := range crossover.Order(len(ways), round) {
			if err := results[i].turn(ways[i], runs[i]); err != nil {
				return nil, err
			}
		}
	}
	return results, nil
}

// probes is how many runs say how long one takes: the first of them fills the pools.
const probes = 2

// turn has a way run n times, and adds what once took.
func (r *Result) turn(w way, n int) (err error) {
	runtime.GC()                        // nobody pays for the garbage of the one before
	if err := w.repeat(1); err != nil { // what the collector has emptied is full again
		return err
	}
	if w.begin != nil {
		w.begin()
	}
	r.Add(measure.Take(func() { err = w.repeat(n) }), n)
	if w.end != nil {
		w.end()
	}
	return err
}

func (w way) repeat(n int) error {
	for range n {
		if err := w.run(); err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
	}
	return nil
}

// Measure gives every contender of c a turn of about d in every round.
func (s *Site) Measure(c Case, rounds int, d time.Duration) ([]Result, error) {
	results, err := take(s.ways(c), rounds, d)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Key, err)
	}
	return results, nil
}

// ways are the contenders of c. Bytes that were lost, or are not in order, are an error.
func (s *Site) ways(c Case) (ways []way) {
	want := c.checksum()
	for _, by := range c.contenders {
		ways = append(ways, way{name: by.Name, run: func() error {
			crc, err := s.run(c, by)
			if err == nil && crc != want {
				err = errOtherBytes
			}
			return err
		}})
	}
	return ways
}
