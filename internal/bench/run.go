package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Config is what is to be measured.
type Config struct {
	Suites []string // by name; none stands for all
	Quick  bool     // is said in commands; the Effort is what counts
	Effort Effort

	Version string // of this program, for the report

	// Profiles is the directory in which a CPU and a heap profile of each recorded server are left; empty: none are made.
	Profiles string

	// Command starts this program so that it calls Child. Nil: the program itself with the argument bench.
	Command []string

	// Progress is called after each turn, on Run's goroutine; nil: nobody is told.
	Progress func(Progress)
}

// Progress is a benchmark on its way.
type Progress struct {
	Done, Total time.Duration // of the time that it takes, about
	Suite, What string        // that is being measured
}

// ErrInterrupted says that a benchmark ended before everything was measured. The report has what was.
var ErrInterrupted = errors.New("bench: interrupted: the figures are those of the time until then")

// session is a benchmark on its way, as its suites see it.
type session struct {
	cfg    Config
	effort Effort
	report *Report

	suite string // that is running
	done  time.Duration
	total time.Duration
}

// Check returns an error that says why c cannot be meant.
func (c Config) Check() error {
	if _, _, err := choose(c.Suites); err != nil {
		return err
	}
	return c.Effort.check()
}

// Run measures. A suite for which something is not installed is skipped; that is an error if it was asked for by name. The
// report has what was measured, whatever the error; only a Config that cannot be meant gives none.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	chosen, all, err := choose(cfg.Suites)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	s := &session{cfg: cfg, effort: cfg.Effort, report: &Report{
		Version: SchemaVersion, Command: cfg.command(cfg.Suites...),
		Began: began.UTC().Truncate(time.Second), Rounds: cfg.Effort.Rounds, Machine: thisMachine(cfg.Version),
		Suites: []SuiteInfo{}, Figures: []Figure{}, Recordings: []Recording{},
	}}
	for _, c := range chosen {
		s.total += c.length(cfg.Effort)
	}
	var errs []error
	var passed time.Duration
	for _, c := range chosen {
		if err := s.runSuite(ctx, c); err != nil && (!missing(err) || !all) {
			errs = append(errs, fmt.Errorf("bench: %s: %w", c.name, err))
		}
		passed += c.length(cfg.Effort)
		s.done = passed
	}
	s.report.Seconds = time.Since(began).Seconds()
	if s.report.Interrupted = ctx.Err() != nil; s.report.Interrupted {
		errs = append(errs, ErrInterrupted)
	}
	return s.report, errors.Join(errs...)
}

// runSuite runs one and notes what became of it. That it was interrupted is not its error.
func (s *session) runSuite(ctx context.Context, c suite) error {
	s.report.Suites = append(s.report.Suites, SuiteInfo{
		Name: c.name, What: c.what, State: NotReached, Command: s.cfg.command(c.name),
	})
	if ctx.Err() != nil {
		return nil
	}
	s.suite = c.name
	s.step("starting", 0)
	err := c.run(ctx, s)
	info := s.info()
	switch {
	case err == nil:
		info.State = Finished
	case ctx.Err() != nil:
		info.State = Measuring
		return nil
	case missing(err):
		info.State, info.Why = Skipped, err.Error()
	default:
		info.State, info.Why = Failed, err.Error()
	}
	return err
}

// info is that of the suite that is running.
func (s *session) info() *SuiteInfo { return &s.report.Suites[len(s.report.Suites)-1] }

// note adds a sentence that a reader of the suite's figures has to know.
func (s *session) note(text string) {
	info := s.info()
	info.Notes = append(info.Notes, text)
}

// add takes a figure of the suite that is running, if it is one.
func (s *session) add(f Figure) {
	if !f.finite() {
		return
	}
	f.Command = s.cfg.command(s.suite)
	s.report.Figures = append(s.report.Figures, f)
}

// step tells that a turn of about d is over.
func (s *session) step(what string, d time.Duration) {
	s.done = min(s.done+d, s.total)
	if s.cfg.Progress != nil {
		s.cfg.Progress(Progress{Done: s.done, Total: s.total, Suite: s.suite, What: what})
	}
}

// command is what measures the same again.
func (c Config) command(suites ...string) string {
	args := append([]string{"millrace", "bench"}, suites...)
	standard := DefaultEffort().Rounds
	if c.Quick {
		args = append(args, "--quick")
		standard = QuickEffort().Rounds
	}
	if c.Effort.Rounds != standard || len(suites) == 1 && suites[0] != All {
		args = append(args, fmt.Sprintf("--rounds %d", c.Effort.Rounds))
	}
	return strings.Join(args, " ")
}
