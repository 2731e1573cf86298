package chunk

import (
	"context"
	"runtime"
	"runtime/metrics"
	"time"
)

// Run samples the process every [Interval] and observes each sample, until ctx ends. Where nobody calls Observe,
// nothing moves unless Run is under way. Run panics when it is under way already.
//
// The number of processors is GOMAXPROCS, which follows the limit of a cgroup unless it was set by hand. Memory is what
// the Go runtime has and has not given back, as GOMEMLIMIT counts it.
func (t *Tuner) Run(ctx context.Context) {
	if !t.sampling.CompareAndSwap(false, true) {
		panic("chunk: Run of a Tuner while another goroutine is in it")
	}
	defer t.sampling.Store(false)
	tick := time.NewTicker(t.cfg.interval)
	defer tick.Stop()
	s := newSampler(t)
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			t.Observe(s.sample())
		}
	}
}

// sampler looks at the process and at what the Tuner has counted. It belongs to one goroutine.
type sampler struct {
	tuner   *Tuner
	metrics [2]metrics.Sample
	last    reading
}

// reading is what has been counted at a time, from some start on.
type reading struct {
	at                              time.Time
	cpu                             time.Duration
	moved, waited, starved, stuffed int64
}

func newSampler(t *Tuner) *sampler {
	s := &sampler{tuner: t}
	s.metrics[0].Name = "/memory/classes/total:bytes"
	s.metrics[1].Name = "/memory/classes/heap/released:bytes"
	s.last, _ = s.read()
	return s
}

// read returns what has been counted, and how many goroutines wait in Acquire.
func (s *sampler) read() (now reading, waiting int) {
	t := s.tuner
	now = reading{
		at:      time.Now(),
		cpu:     processorTime(),
		moved:   t.moved.Load(),
		starved: t.starved.Load(),
		stuffed: t.stuffed.Load(),
	}
	_, waiting, now.waited = t.gate.load()
	return now, waiting
}

// sample returns what happened since the last one.
func (s *sampler) sample() Sample {
	now, waiting := s.read()
	before := s.last
	s.last = now
	metrics.Read(s.metrics[:])
	return Sample{
		Elapsed:    now.at.Sub(before.at),
		Processors: float64(runtime.GOMAXPROCS(0)),
		CPU:        now.cpu - before.cpu,
		Memory:     int64(s.metrics[0].Value.Uint64() - s.metrics[1].Value.Uint64()),
		Moved:      now.moved - before.moved,
		Waiting:    waiting,
		Waited:     now.waited - before.waited,
		Starved:    now.starved - before.starved,
		Stuffed:    now.stuffed - before.stuffed,
	}
}
