// Package load loads a live server as its users do: publishers send streams in real time, viewers
// read them, and some viewers stop reading. It counts the tags that arrive and the tags that are
// missing, and measures when tags arrive.
//
// Every tag that a publisher sends contains its number and the time of sending, so that a viewer
// knows which tags it missed and how old a tag is. A Protocol transfers the tags. FLV over HTTP is
// built in.
//
// The protocol and the synthetic stream allocate nothing per tag, because they must cost less than
// the server that they measure.
package load

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace/internal/sleep"
)

type run struct {
	cfg   Config
	proto Protocol
	began int64 // wall clock time of the start, in nanoseconds

	// measuring is set during the measurement, after the ramp and the settling time. Durations are
	// added to histograms only then.
	measuring atomic.Bool

	publishers []*publisher
	viewers    []*viewer // in the order of their start
	sent       sentTally
	healthy    group
	stalled    group
}

// errAllEnded is the cancellation cause of the context after all publishers or all viewers have
// ended.
var errAllEnded = errors.New("all publishers or all viewers have ended")

// Run applies the load of cfg to the server and returns a report. It ends after the ramp, the
// settling time and cfg.Duration. It ends earlier if all publishers or all viewers have ended, or
// if ctx ends. If ctx ended, the report is marked as interrupted.
//
// If the load was not as requested, Run returns an error as well as the report. These are the
// reasons:
//
//   - cfg is invalid.
//   - A publisher was refused or ended early.
//   - No viewer received anything.
//   - All viewers have ended.
//
// Run calls the function progress every second, in the goroutine that called Run. progress may be
// nil.
func Run(ctx context.Context, cfg Config, progress func(Progress)) (Report, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Check(); err != nil {
		return Report{}, err
	}
	r := newRun(cfg)
	if progress == nil {
		progress = func(Progress) {}
	}
	return r.execute(ctx, progress)
}

func newRun(cfg Config) *run {
	r := &run{cfg: cfg, proto: cfg.Protocol, began: time.Now().UnixNano()}
	if r.proto == nil {
		r.proto = newHTTPFLV(cfg)
	}
	names := cfg.streamNames()
	if !cfg.NoPublish {
		for i, name := range names {
			r.publishers = append(r.publishers, &publisher{load: r, index: i, name: name})
		}
	}
	r.spreadViewers(names)
	return r
}

// spreadViewers creates the viewers. Consecutive viewers watch different streams, so that the
// number of viewers grows evenly in all streams. The stalled viewers are spread evenly among all
// viewers.
func (r *run) spreadViewers(names []string) {
	total := len(names) * r.cfg.Viewers
	for i := range total {
		stalls := (i+1)*r.cfg.Stalled/total > i*r.cfg.Stalled/total
		g := &r.healthy
		if stalls {
			g = &r.stalled
		}
		g.wanted++
		r.viewers = append(r.viewers, &viewer{load: r, group: g, stream: names[i%len(names)],
			stalls: stalls})
	}
}

func (r *run) execute(ctx context.Context, progress func(Progress)) (Report, error) {
	began := time.Now()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	publishing, stopPublishing := context.WithCancel(context.Background())
	watching, stopWatching := context.WithCancel(context.Background())
	defer stopPublishing()
	defer stopWatching()

	var publishers, viewers sync.WaitGroup
	ended := countdown(len(r.publishers), func() { end(errAllEnded) })
	for _, p := range r.publishers {
		publishers.Go(func() {
			defer ended()
			p.run(publishing)
		})
	}
	r.startViewers(watching, &viewers, countdown(len(r.viewers), func() { end(errAllEnded) }))

	r.wait(ctx, began, r.cfg.Ramp+r.cfg.Settle, progress)
	from := r.mark()
	r.measuring.Store(true)
	r.wait(ctx, began, r.cfg.Duration, progress)
	r.measuring.Store(false)
	until := r.mark()
	cause := context.Cause(ctx)

	// Stop the viewers first, because the end of a publisher would end its viewers' streams, and
	// these viewers would be counted as ended early.
	stopWatching()
	viewers.Wait()
	stopPublishing()
	publishers.Wait()

	rep := r.report(began, from, until)
	rep.EndedEarly = cause == errAllEnded
	rep.Interrupted = cause != nil && !rep.EndedEarly
	return rep, rep.failure()
}

// startViewers starts the viewers one after the other during the ramp. When a viewer ends, it calls
// onEnd.
func (r *run) startViewers(ctx context.Context, wg *sync.WaitGroup, onEnd func()) {
	wg.Go(func() {
		began := time.Now()
		for i, v := range r.viewers {
			due := r.cfg.Ramp * time.Duration(i) / time.Duration(len(r.viewers))
			if !sleep.For(ctx, due-time.Since(began)) {
				return
			}
			wg.Go(func() {
				defer onEnd()
				v.run(ctx)
			})
		}
	})
}

func countdown(n int, f func()) func() {
	var calls atomic.Int64
	return func() {
		if calls.Add(1) == int64(n) {
			f()
		}
	}
}

const progressInterval = time.Second

func (r *run) wait(ctx context.Context, began time.Time, d time.Duration, progress func(Progress)) {
	end := time.NewTimer(d)
	defer end.Stop()
	tick := time.NewTicker(progressInterval)
	defer tick.Stop()
	for {
		select {
		case <-end.C:
			return
		case <-ctx.Done():
			return
		case <-tick.C:
			progress(r.progress(time.Since(began)))
		}
	}
}
