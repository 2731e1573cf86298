package chunk

import (
	"fmt"
	"runtime"
	"time"

	"github.com/millrace-io/millrace/bench/measure"
)

// Result is one contender in one case.
type Result struct {
	Contender    Contender
	measure.Cost // of a run
}

// Measure gives every contender a turn of about d in every round, in turns.
func (s *Site) Measure(c Case, rounds int, d time.Duration) ([]Result, error) {
	results := make([]Result, len(c.contenders))
	runs := make([]int, len(c.contenders))
	t := trial{s, c, c.checksum()}
	for i, by := range c.contenders {
		results[i].Contender = by
		began := time.Now()
		if err := t.repeat(by, probes); err != nil {
			return nil, err
		}
		runs[i] = max(1, int(probes*d/max(1, time.Since(began))))
	}
	for round := range rounds {
		for k := range c.contenders {
			// Every round begins with another one, so that nobody always follows the same neighbour.
			i := (k + round) % len(c.contenders)
			if err := t.turn(&results[i], runs[i]); err != nil {
				return nil, err
			}
		}
	}
	return results, nil
}

// probes is how many runs say how long one takes: the first of them fills the pools.
const probes = 2

// A trial is a case on a site, and what everybody's checksum must be.
type trial struct {
	site *Site
	c    Case
	want uint32
}

// turn has a contender read the source n times, and adds what once took.
func (t trial) turn(r *Result, n int) (err error) {
	runtime.GC()                                     // nobody pays for the garbage of the one before
	if err := t.repeat(r.Contender, 1); err != nil { // what the collector has emptied is full again
		return err
	}
	r.Add(measure.Take(func() { err = t.repeat(r.Contender, n) }), n)
	return err
}

// repeat reads the source n times. Bytes that were lost, or are not in order, are an error.
func (t trial) repeat(by Contender, n int) error {
	for range n {
		crc, err := t.site.run(t.c, by)
		if err != nil {
			return fmt.Errorf("%s: %s: %w", t.c.Key, by.Name, err)
		}
		if crc != t.want {
			return fmt.Errorf("%s: %s: other bytes than those of the source", t.c.Key, by.Name)
		}
	}
	return nil
}
