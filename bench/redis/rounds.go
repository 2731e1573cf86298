package redis

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/millrace-io/millrace/bench/measure"
	"github.com/millrace-io/millrace/internal/crossover"
)

// A Plan is a benchmark: every contender does every round of every case, in turns.
type Plan struct {
	Server     *Server
	Tasks      []Task
	Sizes      []int
	Goroutines []int
	Rounds     int
	Turn       time.Duration // of each turn, about
	Beside     time.Duration // of each turn of small GETs beside large values
	Log        func(format string, args ...any)
}

// A Result is one contender in one case.
type Result struct {
	Task, Contender  string
	Size, Goroutines int
	measure.Cost     // of a call; CPU is that of this process, which is the client
}

// Run returns the results in the order of the tables, as far as it came.
func (p *Plan) Run(ctx context.Context) (results []Result, err error) {
	s, err := startSink()
	if err != nil {
		return nil, err
	}
	defer s.stop()
	for _, t := range p.Tasks {
		for _, n := range p.Goroutines {
			for _, size := range p.Sizes {
				p.Log("%s, %s, %s", t.What, SizeName(size), goroutines(n))
				site, err := p.Server.site(ctx, size, s.addr)
				if err != nil {
					return results, err
				}
				r, err := p.runCase(ctx, t, site, n)
				if err != nil {
					return results, fmt.Errorf("%s, %s: %w", t.What, SizeName(size), err)
				}
				results = append(results, r...)
			}
		}
	}
	return results, nil
}

func (p *Plan) runCase(ctx context.Context, t Task, s *Site, goroutines int) ([]Result, error) {
	contenders := t.contenders
	results := make([]Result, len(contenders))
	crews := make([]*crew, len(contenders))
	calls := make([]int, len(contenders))
	for i, c := range contenders {
		var err error
		if crews[i], err = assemble(ctx, c, s, goroutines); err != nil {
			return nil, fmt.Errorf("%s: %w", c.Name, err)
		}
		defer crews[i].dismiss()
		if calls[i], err = crews[i].calibrate(p.Turn); err != nil {
			return nil, fmt.Errorf("%s: %w", c.Name, err)
		}
		results[i] = Result{Task: t.Key, Contender: c.Name, Size: s.Size, Goroutines: goroutines}
	}
	for round := range p.Rounds {
		for _, i := range crossover.Order(len(contenders), round) {
			if err := results[i].turn(crews[i], calls[i]); err != nil {
				return nil, fmt.Errorf("%s: %w", contenders[i].Name, err)
			}
		}
	}
	return results, nil
}

// turn has each goroutine of w make n calls, and adds what a call took.
func (r *Result) turn(w *crew, n int) (err error) {
	runtime.GC()                       // nobody pays for the garbage of the one before
	if err := w.calls(1); err != nil { // what the collector has emptied is full again
		return err
	}
	r.Add(measure.Take(func() { err = w.calls(n) }), n*len(w.orders))
	return err
}

func goroutines(n int) string {
	if n == 1 {
		return "one goroutine"
	}
	return fmt.Sprintf("%d goroutines", n)
}
