package relay

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/millrace-io/millrace/bench/measure"
	"github.com/millrace-io/millrace/internal/load"
)

// Start measures how soon viewers see a stream that they wait for.
var Start = &measure.Program{
	Name: "start", What: "from a publisher's first byte to the first picture at a viewer that waits", Rounds: 31,
	Brief: []string{"-rounds", "21"},
	Flags: func(f *flag.FlagSet) {
		f.StringVar(&startContenders, "contenders", "nginx,nginx@65536,millrace-rtmp@0,millrace-rtmp,millrace-rtmp-flv@0,millrace-rtmp-flv",
			"of "+specs+"; one ratio is to the first")
	},
	Run: runStart,
}

var startContenders string

// A trial is one publisher of a stream of its own, and one viewer.
type trial struct {
	column string
	take   func(ctx context.Context, p load.Protocol, stream string) (time.Duration, error)
}

// trials are what each contender does in each round. A stream's name is used once.
var trials = []trial{{"first picture ms", firstPicture}}

const (
	startBitRate     = 2_150_000
	startKeyInterval = 2 * time.Second
	trialTime        = 20 * time.Second
)

func runStart(ctx context.Context, p *measure.Params) error {
	dir, err := os.MkdirTemp("", "bench-start-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	all, err := ready(ctx, p, startContenders, dir)
	if err != nil {
		return err
	}
	servers := make([]*running, len(all)) // those that have no turn are idle
	for i, c := range all {
		home, err := os.MkdirTemp(dir, "")
		if err != nil {
			return err
		}
		if servers[i], err = c.start(ctx, home, load.Config{BitRate: startBitRate}); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		defer servers[i].Stop()
	}
	columns := []string{"contender", "publishers' protocol", "viewers' protocol"}
	took := make([][]measure.Series, len(trials)) // by trial and contender, milliseconds
	for k, t := range trials {
		columns = append(columns, t.column, "x "+all[0].name)
		took[k] = make([]measure.Series, len(all))
		err := measure.Rounds(ctx, len(all), p.Rounds, func(round, i int) error {
			ctx, cancel := context.WithTimeout(ctx, trialTime)
			defer cancel()
			d, err := t.take(ctx, servers[i].protocol(), fmt.Sprintf("trial-%d-%d", k, round))
			if err != nil {
				return fmt.Errorf("%s, %s: %w", all[i].name, t.column, err)
			}
			took[k][i] = append(took[k][i], milliseconds(d))
			return nil
		})
		if err != nil {
			return err
		}
	}
	t := measure.NewTable("relay-start", fmt.Sprintf("A viewer waits for a stream of %.2f Mbit/s, %d rounds", startBitRate/1e6, p.Rounds),
		columns...)
	t.Bar = 3
	t.Note = "From the moment when the publisher connects to the first picture, which is a key frame, at a viewer that came before."
	for i, who := range all {
		row := []any{who.name, who.in, who.out}
		for k := range trials {
			row = append(row, took[k][i], took[k][i].Over(took[k][0]))
		}
		t.Row(row...)
	}
	return p.Add(t)
}

// firstPicture is the time from when a publisher connects to the first picture at a viewer that waits for the stream.
func firstPicture(ctx context.Context, p load.Protocol, stream string) (time.Duration, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type picture struct {
		at  time.Time
		err error
	}
	seen := make(chan picture, 1)
	go func() {
		at, err := awaitPicture(ctx, p, stream)
		seen <- picture{at, err}
	}()
	// No server says that a viewer waits. The time varies because servers may do things at a beat.
	time.Sleep(100*time.Millisecond + rand.N(100*time.Millisecond))
	began := time.Now()
	done := make(chan error, 1)
	go func() {
		err := publish(ctx, p, stream, startBitRate, startKeyInterval, new(sums))
		cancel() // the viewer's wait too, if it is not over
		done <- err
	}()
	first := <-seen
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		return 0, fmt.Errorf("publishing: %w", err)
	}
	return first.at.Sub(began), first.err
}

// awaitPicture returns when the first picture of a stream has come.
func awaitPicture(ctx context.Context, p load.Protocol, stream string) (time.Time, error) {
	s, err := p.Watch(ctx, stream)
	if err != nil {
		return time.Time{}, err
	}
	defer s.Close()
	const frames = 1 // the second byte of pictures; sequence headers have 0
	for {
		var a load.Arrival
		if err := s.Next(&a); err != nil {
			return time.Time{}, err
		}
		if a.Kind == load.Video && len(a.Head) > 1 && a.Head[1] == frames {
			return time.Now(), nil
		}
	}
}
