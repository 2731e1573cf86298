package cluster

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/millrace-io/millrace/bench/measure"
	"github.com/millrace-io/millrace/internal/load"
)

// A testCase is a number of streams, and a number of viewers of each stream.
type testCase struct{ streams, viewers int }

func (c testCase) String() string { return fmt.Sprintf("%dx%d", c.streams, c.viewers) }

func (c testCase) names() (names []string) {
	for i := range c.streams {
		names = append(names, fmt.Sprintf("load-%d", i))
	}
	return names
}

func parseCases(list string) (all []testCase, err error) {
	for _, s := range strings.Split(list, ",") {
		var c testCase
		streams, viewers, ok := strings.Cut(strings.TrimSpace(s), "x")
		if c.streams, err = strconv.Atoi(streams); err == nil {
			c.viewers, err = strconv.Atoi(viewers)
		}
		if !ok || err != nil || c.streams < 1 || c.viewers < 1 {
			return nil, fmt.Errorf("%q: want STREAMSxVIEWERS, more with commas", s)
		}
		all = append(all, c)
	}
	return all, nil
}

// A probe returns the value of a counter that only grows.
type probe func() (float64, error)

// cpuOf returns a probe for the CPU time of s, in seconds. If s is nil, the probe returns 0.
func cpuOf(s *measure.Server) probe {
	return func() (float64, error) {
		if s == nil {
			return 0, nil
		}
		u, err := measure.UsageOf(s.PIDs)
		return u.CPU.Seconds(), err
	}
}

type result struct {
	load.Report
	seconds float64   // time between the first and the last reading of the probes
	bytes   float64   // received by all viewers in that time
	grown   []float64 // increase of each probe's value in that time, in the order of the probes
}

func (r *result) lost() float64 { return float64(r.Viewers.Lost) }

func (r *result) ended() (n float64) {
	for _, c := range r.Viewers.Ended {
		n += float64(c)
	}
	return n
}

// perGB returns the increase of a probe's value for each 10⁹ bytes that viewers received.
func (r *result) perGB(probe int) float64 { return r.grown[probe] / (r.bytes / 1e9) }

// turn runs a load test of case c on target. It measures for the given number of seconds, and reads
// the probes once per second.
func turn(ctx context.Context, c testCase, target *spread, seconds int,
	probes ...probe) (*result, error) {
	cfg := load.Config{
		Names: c.names(), Viewers: c.viewers, BitRate: bitRate, Protocol: target,
		Ramp: time.Second, Settle: 2 * time.Second,
		Duration: time.Duration(seconds)*time.Second + 1500*time.Millisecond,
	}
	type sample struct {
		at     time.Time
		bytes  int64
		values []float64
	}
	var first, last *sample
	var failed error
	report, err := load.Run(ctx, cfg, func(p load.Progress) {
		if !p.Measuring {
			return
		}
		s := &sample{at: time.Now(), bytes: p.Bytes}
		for _, probe := range probes {
			v, err := probe()
			if err != nil {
				failed = err
			}
			s.values = append(s.values, v)
		}
		if first == nil {
			first = s
		}
		last = s
	})
	for _, err := range []error{err, ctx.Err(), failed} { // an interrupted turn has no result
		if err != nil {
			return nil, err
		}
	}
	r := &result{Report: report, seconds: last.at.Sub(first.at).Seconds(),
		bytes: float64(last.bytes - first.bytes)}
	for i := range probes {
		r.grown = append(r.grown, last.values[i]-first.values[i])
	}
	return r, nil
}

func series(results []*result, f func(*result) float64) (s measure.Series) {
	for _, r := range results {
		s = append(s, f(r))
	}
	return s
}
