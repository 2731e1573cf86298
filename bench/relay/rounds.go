package relay

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/millrace-io/millrace/bench/measure"
	"github.com/millrace-io/millrace/internal/crossover"
	"github.com/millrace-io/millrace/internal/load"
)

// Plan is a benchmark: every contender does every round, in turns.
type Plan struct {
	Case       Case
	Contenders []Contender
	Rounds     int
	Seconds    int // measured, of each turn
	BitRate    int
	Log        func(format string, args ...any)
}

// Turn is one contender in one round.
type Turn struct {
	Case      string      `json:"case"`
	Contender string      `json:"contender"`
	Round     int         `json:"round"`
	Report    load.Report `json:"report"`

	// Counted is what the server itself counts of viewers that are behind, if it does.
	Counted map[string]int `json:"counted,omitempty"`
}

// Run returns the turns in the order in which they were taken. The contenders
// are prepared. One that cannot be started ends the benchmark.
func (p Plan) Run(ctx context.Context) ([]Turn, error) {
	var turns []Turn
	for round := range p.Rounds {
		for _, i := range crossover.Order(len(p.Contenders), round) {
			c := p.Contenders[i]
			t, err := p.turn(ctx, c)
			if err != nil {
				return turns, fmt.Errorf("%s: %w", c.Name(), err)
			}
			p.log(round, c, &t.Report)
			t.Round = round
			turns = append(turns, t)
		}
	}
	return turns, nil
}

func (p Plan) turn(ctx context.Context, c Contender) (t Turn, err error) {
	t.Case, t.Contender = p.Case.String(), c.Name()
	err = p.serve(ctx, c, func(s *Server) error {
		if t.Report, err = load.Run(ctx, p.config(s), nil); err != nil {
			return err
		}
		if p.Case.Stalled > 0 && s.Metrics != "" {
			t.Counted, err = countedBehind(ctx, s.Metrics)
		}
		return err
	})
	return t, err
}

// serve has a contender run while f puts a load on it.
func (p Plan) serve(ctx context.Context, c Contender, f func(*Server) error) error {
	dir, err := os.MkdirTemp("", "bench-relay-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	s, err := c.Start(ctx, dir, p.Case)
	if err != nil {
		return err
	}
	defer s.Stop()
	if err := f(s); err != nil {
		return err
	}
	return ctx.Err() // a turn that was interrupted says nothing
}

func (p Plan) config(s *Server) load.Config {
	cfg := s.Config
	cfg.Streams, cfg.Viewers = p.Case.Streams, p.Case.Viewers
	if p.Case.Stalled > 0 {
		cfg.Stalled = p.Case.Streams * p.Case.Viewers / p.Case.Stalled
		cfg.StallFor = time.Minute
	}
	cfg.BitRate = p.BitRate
	cfg.ReadEvery = p.Case.ReadEvery
	cfg.Ramp, cfg.Settle = 2*time.Second, 2*time.Second
	cfg.Duration = time.Duration(p.Seconds) * time.Second
	cfg.ServerPIDs = s.PIDs
	return cfg
}

func (p Plan) log(round int, c Contender, rep *load.Report) {
	if p.Log == nil {
		return
	}
	cpu := "unknown"
	if rep.Server != nil {
		cpu = fmt.Sprintf("%.2f", rep.Server.CPUPerGB)
	}
	p.Log("round %d, %s, %s: %s CPU s/GB, %.2f GB, gap %v/%v, latency %v/%v, lost %d, ended %v",
		round+1, p.Case, c.Name(), cpu, float64(rep.Bytes)/1e9, rep.Viewers.Gap.P50, rep.Viewers.Gap.P99,
		rep.Viewers.Latency.P50, rep.Viewers.Latency.P99, rep.Viewers.Lost, rep.Viewers.Ended)
}

// figure takes one number out of a report.
type figure func(*load.Report) float64

// series is that number in every round of a contender.
func series(turns []Turn, contender string, f figure) measure.Series {
	var s measure.Series
	for i := range turns {
		if turns[i].Contender == contender {
			s = append(s, f(&turns[i].Report))
		}
	}
	return s
}
