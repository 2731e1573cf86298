package bench

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/millrace-io/millrace/internal/crossover"
)

// A contest is one thing to do, and the contenders that do it, the first of which is ours. All of them do it in this
// process.
type contest struct {
	key, what  string
	unit       string // of one operation: "packet"
	contenders []contender
}

// A contender is a way to do it.
type contender struct {
	key, name string
	open      func(ctx context.Context) (*task, error)
}

// A task is a contender at work.
type task struct {
	do    func(n int) error // does it n times
	close func()            // gives back what it holds; may be nil
}

// quick is a contender that has nothing to open and cannot fail.
func quick(key, name string, do func(n int)) contender {
	return contender{key, name, func(context.Context) (*task, error) {
		return &task{do: func(n int) error {
			do(n)
			return nil
		}}, nil
	}}
}

// taken is what one operation took in a turn.
type taken struct{ nanos, cpu, bytes, allocs, gcs float64 }

// run gives every contender a turn in every round, and adds a figure for each rival. When ctx ends, the rounds that
// everybody has done count.
func (c *contest) run(ctx context.Context, s *session) error {
	tasks := make([]*task, len(c.contenders))
	times := make([]int, len(c.contenders))
	for i, who := range c.contenders {
		t, err := who.open(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", who.name, err)
		}
		if t.close != nil {
			defer t.close()
		}
		tasks[i] = t
		if times[i], err = calibrate(ctx, t, s.effort.Turn); err != nil {
			return fmt.Errorf("%s: %w", who.name, err)
		}
	}
	turns := make([][]taken, len(c.contenders))
	err := inTurns(ctx, s.effort.Rounds, len(c.contenders), func(_, i int) error {
		t, err := turn(tasks[i], times[i])
		if err != nil {
			return fmt.Errorf("%s: %w", c.contenders[i].name, err)
		}
		turns[i] = append(turns[i], t)
		s.step(c.what, s.effort.Turn)
		return nil
	})
	c.report(s, turns)
	return err
}

// inTurns calls turn for each of n in every round, in a crossover order.
func inTurns(ctx context.Context, rounds, n int, turn func(round, i int) error) error {
	for round := range rounds {
		for _, i := range crossover.Order(n, round) {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := turn(round, i); err != nil {
				return err
			}
		}
	}
	return nil
}

const (
	// mostTimes bounds what is done before the clock is looked at again, should it not move.
	mostTimes = 1 << 30
	// calibration is the part of a turn that must pass until its speed is believed.
	calibration = 4
)

// calibrate returns how many times t is done in d. It fills pools and opens connections on the way.
func calibrate(ctx context.Context, t *task, d time.Duration) (int, error) {
	for n := 1; ; n *= 2 {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		began := time.Now()
		if err := t.do(n); err != nil {
			return 0, err
		}
		if took := time.Since(began); took >= d/calibration && took > 0 || n >= mostTimes {
			return max(1, int(float64(n)*float64(d)/float64(max(took, 1)))), nil
		}
	}
}

// turn does it n times and says how much one operation took.
func turn(t *task, n int) (taken, error) {
	runtime.GC() // nobody pays for the garbage of the one before
	if err := t.do(1); err != nil {
		return taken{}, err // what the collector has emptied is full again
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu, began := cpuTime(), time.Now()
	err := t.do(n)
	took, cpu := time.Since(began), cpuTime()-cpu
	runtime.ReadMemStats(&after)
	times := float64(n)
	return taken{
		nanos:  float64(took) / times,
		cpu:    float64(cpu) / times,
		bytes:  float64(after.TotalAlloc-before.TotalAlloc) / times,
		allocs: float64(after.Mallocs-before.Mallocs) / times,
		gcs:    float64(after.NumGC-before.NumGC) / max(took.Seconds(), 1e-9),
	}, err
}

// report adds the figures of the rounds that all contenders have done.
func (c *contest) report(s *session, turns [][]taken) {
	rounds := complete(turns)
	if rounds == 0 {
		return
	}
	all := make([]Measured, len(turns))
	for i := range turns {
		all[i] = summarise(c.contenders[i].name, turns[i][:rounds])
	}
	for i, rival := range c.contenders[1:] {
		f := Figure{
			Name: s.suite + "/" + c.key + "/" + rival.key, Suite: s.suite, What: c.what,
			Unit: "ns/" + c.unit, Better: Lower, Measured: all[0],
		}
		f.against(all[i+1])
		s.add(f)
	}
}

// complete is how many rounds all have done.
func complete[T any](turns [][]T) int {
	rounds := len(turns[0])
	for _, t := range turns {
		rounds = min(rounds, len(t))
	}
	return rounds
}

func summarise(name string, turns []taken) Measured {
	of := func(f func(taken) float64) Series {
		s := make(Series, len(turns))
		for i, t := range turns {
			s[i] = f(t)
		}
		return s
	}
	m := measured(name, of(func(t taken) float64 { return t.nanos }))
	m.Cost = &Cost{
		CPU:    of(func(t taken) float64 { return t.cpu }).Median(),
		Bytes:  of(func(t taken) float64 { return t.bytes }).Median(),
		Allocs: of(func(t taken) float64 { return t.allocs }).Median(),
		GCs:    of(func(t taken) float64 { return t.gcs }).Median(),
	}
	return m
}
