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

// Start measures how fast the first video frame of a new publisher reaches a waiting viewer.
var Start = &measure.Program{
	Name: "start", What: "from a publisher's first byte to the first picture at a viewer that waits", Rounds: 31,
	Brief: []string{"-rounds", "21"},
	Flags: func(f *flag.FlagSet) {
		f.StringVar(&startContenders, "contenders",
			"nginx,nginx@65536,millrace-rtmp@0,millrace-rtmp,millrace-rtmp-flv@0,millrace-rtmp-flv",
			"of "+specs+"; one ratio is to the first")
	},
	Run: runStart,
}

var startContenders string

// A trial is a measurement with one publisher and one viewer.
type trial struct {
	column string // in the table of results
	// take performs one measurement. The stream must be new to the server.
	take func(ctx context.Context, p load.Protocol, stream string) (time.Duration, error)
}

var trials = []trial{{"first picture ms", firstPicture}, {"longer pause ms", reconnectPause}}

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
	// All servers keep running. They are idle between their turns.
	servers := make([]*instance, len(all))
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
	took := make([][]measure.Series, len(trials)) // by trial and contender, in milliseconds
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
	t := measure.NewTable("relay-start",
		fmt.Sprintf("A viewer waits for a stream of %.2f Mbit/s, %d rounds",
			startBitRate/1e6, p.Rounds),
		columns...)
	t.Bar = 3
	t.Note = "First picture: from the moment when the publisher connects to the first picture, which is a keyframe, at a viewer that " +
		"came before. Longer pause: the publisher's connection is cut, and it comes back after half a second; by how much longer than " +
		"that the viewer is without a picture."
	for i, who := range all {
		row := []any{who.name, who.in, who.out}
		for k := range trials {
			row = append(row, took[k][i], took[k][i].Over(took[k][0]))
		}
		t.Row(row...)
	}
	return p.Add(t)
}

// A watcher is a viewer that reports the arrival times of video frames.
type watcher struct {
	pictures chan time.Time
	err      error // set before pictures is closed
}

func watchPictures(ctx context.Context, p load.Protocol, stream string) *watcher {
	w := &watcher{pictures: make(chan time.Time, 4096)}
	go func() {
		defer close(w.pictures)
		s, err := p.Watch(ctx, stream)
		if w.err = err; err != nil {
			return
		}
		defer s.Close()
		const frames = 1 // the second byte of video frames; it is 0 in sequence headers
		for {
			var a load.Arrival
			if w.err = s.Next(&a); w.err != nil {
				return
			}
			if a.Kind == load.Video && len(a.Head) > 1 && a.Head[1] == frames {
				w.pictures <- time.Now()
			}
		}
	}()
	return w
}

func (w *watcher) next() (time.Time, error) {
	if at, ok := <-w.pictures; ok {
		return at, nil
	}
	return time.Time{}, w.err
}

// A sender publishes a stream until cut is called.
type sender struct {
	began time.Time
	stop  context.CancelFunc
	done  chan error
}

// send starts to publish a stream. If publishing fails, it calls cancelWatch to end the viewer's
// wait.
func send(ctx context.Context, p load.Protocol, stream string, cancelWatch context.CancelFunc) *sender {
	ctx, stop := context.WithCancel(ctx)
	s := &sender{began: time.Now(), stop: stop, done: make(chan error, 1)}
	go func() {
		err := publish(ctx, p, stream, startBitRate, startKeyInterval, new(sums))
		if ctx.Err() == nil {
			cancelWatch()
		}
		s.done <- err
	}()
	return s
}

// cut disconnects the publisher. It returns an error if publishing has already failed.
func (s *sender) cut() error {
	s.stop()
	if err := <-s.done; !errors.Is(err, context.Canceled) {
		return fmt.Errorf("publishing: %w", err)
	}
	return nil
}

// sleepRandomly sleeps for a random time from d to 2d, so that the measurement is not in step with
// a server's periodic work.
func sleepRandomly(d time.Duration) { time.Sleep(d + rand.N(d)) }

// firstPicture returns the time from the start of a publisher's connection to the first video frame
// at a waiting viewer.
func firstPicture(ctx context.Context, p load.Protocol, stream string) (time.Duration, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	viewer := watchPictures(ctx, p, stream)
	sleepRandomly(100 * time.Millisecond) // time for the viewer to connect; no server reports this
	publisher := send(ctx, p, stream, cancel)
	first, err := viewer.next()
	return first.Sub(publisher.began), errors.Join(err, publisher.cut())
}

// reconnectPause cuts a publisher's connection and publishes again. It returns the pause in the
// viewer's video, minus the time during which the publisher was absent.
func reconnectPause(ctx context.Context, p load.Protocol, stream string) (time.Duration, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	viewer := watchPictures(ctx, p, stream)
	sleepRandomly(100 * time.Millisecond)
	publisher := send(ctx, p, stream, cancel)
	var last time.Time
	var err error
	for range 20 {
		if last, err = viewer.next(); err != nil {
			return 0, errors.Join(err, publisher.cut())
		}
	}
	if err := publisher.cut(); err != nil {
		return 0, err
	}
	cut := time.Now()
	sleepRandomly(300 * time.Millisecond)
	for len(viewer.pictures) > 0 { // skip frames that were in flight
		last, err = viewer.next()
		if err != nil {
			return 0, err
		}
	}
	publisher = send(ctx, p, stream, cancel)
	first, err := viewer.next()
	return first.Sub(last) - publisher.began.Sub(cut), errors.Join(err, publisher.cut())
}
