// Package load loads a live server as its users do: publishers send a stream in real time, viewers
// read it, and some viewers stop reading. It counts the tags that arrive, records when they arrive,
// and counts the missing tags.
//
// Every tag that a publisher sends contains its number and the time of sending. From them a viewer
// knows which tags it missed and how old a tag is. A Protocol transfers the bytes: FLV over HTTP is
// built in.
//
// A third of the package is that protocol and the synthetic stream. Both must cost less than the
// server that they measure. They are therefore written by hand and allocate nothing for a tag.
package load

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace/internal/sleep"
)

// run is one running load. The publishers and viewers write to their own counters and to the shared
// histograms. Only the goroutine in Run reads all of them.
type run struct {
	cfg   Config
	proto Protocol
	began int64 // wall clock time of the start, in nanoseconds

	// measuring is set when the ramp and the settling time are over, until the end of the load.
	// Only while it is set are values added to a histogram.
	measuring atomic.Bool

	publishers []*publisher
	viewers    []*viewer // in the order in which they start
	sent       sentTally
	healthy    group
	stalled    group
}

// errAllEnded is the cause of the end of a load that has nothing left to measure.
var errAllEnded = errors.New("all publishers or all viewers have ended")

// Run applies the load of cfg to the server and returns a report. It ends after the ramp, the
// settling time and cfg.Duration. It ends early when ctx ends, which the report marks as
// interrupted, or when all publishers or all viewers have ended. An error means that the load was
// not as requested. Causes are an invalid Config, a publisher that was refused or ended early, or
// that no viewer received anything or stayed. The report has the measurements in any case. progress
// may be nil; Run calls it on its own goroutine every progressInterval.
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

// spreadViewers creates the viewers. Successive viewers watch different streams, so that a ramp
// fills all streams evenly. The stalled viewers are spread evenly over all viewers.
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

// execute starts the publishers and viewers, waits for the end of the load, and returns the totals.
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

	// Stop the viewers first. If a publisher leaves earlier, its viewers' streams end. This would
	// be counted as endings by the server.
	stopWatching()
	viewers.Wait()
	stopPublishing()
	publishers.Wait()

	rep := r.report(began, from, until)
	rep.EndedEarly = cause == errAllEnded
	rep.Interrupted = cause != nil && !rep.EndedEarly
	return rep, rep.failure()
}

// startViewers starts the viewers one after the other over the ramp, with one timer for all of
// them. Each viewer calls ended when it has ended.
func (r *run) startViewers(ctx context.Context, wg *sync.WaitGroup, ended func()) {
	wg.Go(func() {
		began := time.Now()
		for i, v := range r.viewers {
			due := r.cfg.Ramp * time.Duration(i) / time.Duration(len(r.viewers))
			if !sleep.For(ctx, due-time.Since(began)) {
				return
			}
			wg.Go(func() {
				defer ended()
				v.run(ctx)
			})
		}
	})
}

// countdown returns a function. When that function is called for the nth time, it calls then.
func countdown(n int, then func()) func() {
	var calls atomic.Int64
	return func() {
		if calls.Add(1) == int64(n) {
			then()
		}
	}
}

// progressInterval is the time between two calls of the progress function.
const progressInterval = time.Second

// wait waits for d or for the end of ctx, and reports progress meanwhile.
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
