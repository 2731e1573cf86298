// Package load drives a live server the way its users do: publishers that send
// a stream in real time, viewers that read it, and viewers that stop reading.
// It counts what arrived, when, and what did not.
//
// Every tag that a publisher sends carries its number and the moment it left,
// so that a viewer knows what it missed and how old a tag is when it arrives.
// How bytes reach the server is a Protocol: FLV over HTTP is built in.
package load

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// run is one load in progress. The publishers and viewers write to their own
// counters and to the shared histograms; only the goroutine in Run reads them all.
type run struct {
	cfg   Config
	proto Protocol

	// measuring is set between the end of the ramp and the end of the load.
	// Outside of it nothing enters a histogram.
	measuring atomic.Bool

	// hopeless is closed when no publisher was let in: there is nothing to
	// measure then.
	hopeless chan struct{}
	refused  atomic.Int64

	sent       sentTally
	publishers []*publisher
	viewers    []*viewer // in the order of coming
	healthy    *group
	stalled    *group
}

// Run puts the load that cfg describes on the server and returns what came of
// it. It ends after the ramp, the settling time and cfg.Duration, or earlier
// with ctx: what was measured until then is reported and marked interrupted.
// The error says that this was not the load that was asked for: a wrong Config,
// a publisher that was refused or ended early, or no viewer that got anything.
// What was measured nevertheless is in the report. progress may be nil; it is
// called on Run's own goroutine, every cfg.Interval.
func Run(ctx context.Context, cfg Config, progress func(Progress)) (Report, error) {
	cfg = cfg.withDefaults()
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
	r := &run{cfg: cfg, proto: cfg.Protocol, healthy: new(group), stalled: new(group), hopeless: make(chan struct{})}
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

// spreadViewers makes every viewer, stream after stream within each row so
// that a ramp fills all streams evenly, and deals the stalled ones out over
// the whole of them.
func (r *run) spreadViewers(names []string) {
	total := len(names) * r.cfg.Viewers
	for i := range total {
		stalls := (i+1)*r.cfg.Stalled/total > i*r.cfg.Stalled/total
		g := r.healthy
		if stalls {
			g = r.stalled
		}
		v := &viewer{load: r, group: g, stream: names[i%len(names)], stalls: stalls}
		g.viewers = append(g.viewers, v)
		r.viewers = append(r.viewers, v)
	}
}

// execute starts everything, waits for the load to pass, and adds it up.
func (r *run) execute(ctx context.Context, progress func(Progress)) (Report, error) {
	began := time.Now()
	publishing, stopPublishing := context.WithCancel(context.Background())
	watching, stopWatching := context.WithCancel(context.Background())
	defer stopPublishing()
	defer stopWatching()

	var publishers, viewers sync.WaitGroup
	for _, p := range r.publishers {
		publishers.Go(func() { p.run(publishing) })
	}
	r.startViewers(watching, &viewers)

	interrupted := r.wait(ctx, began, r.cfg.Ramp+r.cfg.Settle, progress)
	from := r.mark()
	r.measuring.Store(true)
	if !interrupted {
		interrupted = r.wait(ctx, began, r.cfg.Duration, progress)
	}
	r.measuring.Store(false)
	until := r.mark()

	// Viewers go first: a publisher that leaves ends their streams, and that
	// would count as the server's doing.
	stopWatching()
	viewers.Wait()
	stopPublishing()
	publishers.Wait()

	rep := r.report(began, from, until)
	rep.Interrupted = interrupted
	return rep, rep.failure()
}

// startViewers lets the viewers come one after the other over the ramp, on one
// timer rather than one each.
func (r *run) startViewers(ctx context.Context, wg *sync.WaitGroup) {
	wg.Go(func() {
		began := time.Now()
		for i, v := range r.viewers {
			due := r.cfg.Ramp * time.Duration(i) / time.Duration(len(r.viewers))
			if !sleep(ctx, due-time.Since(began)) {
				return
			}
			wg.Go(func() { v.run(ctx) })
		}
	})
}

// publisherFailed counts the publishers that were not let in.
func (r *run) publisherFailed() {
	if r.refused.Add(1) == int64(len(r.publishers)) {
		close(r.hopeless)
	}
}

// wait passes d, reporting progress, and says whether ctx cut it short.
func (r *run) wait(ctx context.Context, began time.Time, d time.Duration, progress func(Progress)) bool {
	end := time.NewTimer(d)
	defer end.Stop()
	tick := time.NewTicker(r.cfg.Interval)
	defer tick.Stop()
	for {
		select {
		case <-end.C:
			return false
		case <-r.hopeless:
			return false
		case <-ctx.Done():
			return true
		case <-tick.C:
			progress(r.progress(time.Since(began)))
		}
	}
}

// sleep waits for d or for the end of ctx, and says whether it was d.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
