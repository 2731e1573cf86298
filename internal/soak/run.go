package soak

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// progressEvery is how often whoever looks on is told.
const progressEvery = time.Second

// A run is one soak. Run's goroutine alone uses it.
type run struct {
	cfg    Config
	began  time.Time
	tally  tally
	faults faults
	houses []*house
	redis  *child // nil if there is none, or it is not ours
	cycles int
	kills  int // restarts so far

	interrupted bool // before its time was over
}

// Progress is told while a run goes on.
type Progress struct {
	Elapsed, Total time.Duration
	Cycle          *Cycle // what has just come to its end; nil in between
}

// A Cycle is one that has come to its end. Done counts from the beginning of the run.
type Cycle struct {
	Number  int
	Signal  syscall.Signal // of the restart in it; 0: there was none
	Done    Done
	Servers []Held
}

// Held is what a server holds at a quiet point.
type Held struct {
	Server string
	Sample
}

// Run soaks until the time is over, until something is wrong, or until ctx ends. What was seen until then is in the report.
// The error says that there could be no soak. progress is called by the goroutine that calls Run; it may be nil.
func Run(ctx context.Context, cfg Config, progress func(Progress)) (Report, error) {
	if err := cfg.check(); err != nil {
		return Report{}, err
	}
	if err := cfg.reach(ctx); err != nil {
		return Report{}, err
	}
	if progress == nil {
		progress = func(Progress) {}
	}
	dir, err := os.MkdirTemp("", "millrace-soak-")
	if err != nil {
		return Report{}, err
	}
	r := &run{cfg: cfg, began: time.Now()}
	err = r.open(ctx, dir)
	if err == nil {
		r.soak(ctx, progress)
		r.interrupted = ctx.Err() != nil
		r.finish(ctx)
	}
	r.close()
	err = errors.Join(err, os.RemoveAll(dir))
	return r.report(), err
}

// open starts the servers.
func (r *run) open(ctx context.Context, dir string) error {
	root, blobs := filepath.Join(dir, "files"), filepath.Join(dir, "blobs")
	if err := errors.Join(os.Mkdir(root, 0o700), os.Mkdir(blobs, 0o700), makeFiles(root)); err != nil {
		return err
	}
	add := func(name string, redis bool, flags ...string) error {
		s := newServer(name, &r.cfg, dir, &r.tally, &r.faults, append([]string{"--root", root}, flags...)...)
		r.houses = append(r.houses, newHouse(s, redis))
		return s.start(ctx)
	}
	if err := add("directory", false, "--blobs", blobs); err != nil || r.cfg.NoRedis {
		return err
	}
	url := r.cfg.Redis
	if url == "" {
		var err error
		if r.redis, url, err = startRedis(ctx, dir); err != nil || r.redis == nil {
			return err
		}
	}
	return add("redis", true, "--redis", url, "--redis-prefix", fmt.Sprintf("millrace-soak-%d:", os.Getpid()))
}

// soak is one cycle after the other.
func (r *run) soak(ctx context.Context, progress func(Progress)) {
	for ctx.Err() == nil && !r.faults.any() && !r.over() {
		r.cycles++
		sig := r.signal()
		every(progressEvery, func() { progress(Progress{Elapsed: time.Since(r.began), Total: r.cfg.For}) }, func() {
			r.all(func(h *house) {
				if err := h.work(ctx, r.cycles, sig); err != nil {
					h.faults.add("server %s: %v", h.name, err)
					return
				}
				h.quiet(context.WithoutCancel(ctx), time.Since(r.began))
			})
		})
		c := &Cycle{Number: r.cycles, Signal: sig, Done: r.tally.done()}
		for _, h := range r.houses {
			if h.life != nil && len(h.life.points) > 0 {
				c.Servers = append(c.Servers, Held{h.name, h.life.points[len(h.life.points)-1].Sample})
			}
		}
		progress(Progress{Elapsed: time.Since(r.began), Total: r.cfg.For, Cycle: c})
	}
}

// over says whether the run has had its time. Where that suffices for drift to be judged, and the machine is so busy that it
// did not, the run goes on until it can be.
func (r *run) over() bool {
	if r.passed() < 1 {
		return false
	}
	if r.cfg.Cycles > 0 || float64(r.cfg.For)*(1-restartPart) < float64(pointsWanted*r.cfg.Cycle) {
		return true
	}
	for _, h := range r.houses {
		if h.life == nil || judged(len(h.life.points)) == 0 {
			return false
		}
	}
	return true
}

// passed is how much of the run is over, from 0 to 1.
func (r *run) passed() float64 {
	if r.cfg.Cycles > 0 {
		return float64(r.cycles) / float64(r.cfg.Cycles)
	}
	return float64(time.Since(r.began)) / float64(r.cfg.For)
}

// signal says how this cycle's restart is done: by SIGTERM and SIGKILL in turn, in each cycle but the first of the first
// part of the time; later not at all.
func (r *run) signal() syscall.Signal {
	if r.cfg.NoRestarts || r.cycles == 1 || r.passed() > restartPart {
		return 0
	}
	if r.kills++; r.kills%2 == 1 {
		return syscall.SIGTERM
	}
	return syscall.SIGKILL
}

// all calls f for each house at a time, and returns when all calls have.
func (r *run) all(f func(*house)) {
	var wg sync.WaitGroup
	for _, h := range r.houses {
		wg.Go(func() { f(h) })
	}
	wg.Wait()
}

// every calls tell now and then until do has returned.
func every(d time.Duration, tell, do func()) {
	done := make(chan struct{})
	go func() { defer close(done); do() }()
	t := time.NewTicker(d)
	defer t.Stop()
	for {
		select {
		case <-done:
			return
		case <-t.C:
			tell()
		}
	}
}

// finish keeps what tells of a failure, and ends the servers.
func (r *run) finish(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	r.judge()
	if r.cfg.Keep != "" && r.faults.any() {
		for _, h := range r.houses {
			if err := h.keep(ctx, r.cfg.Keep); err != nil {
				r.faults.add("keeping the log of server %s: %v", h.name, err)
			}
		}
	}
	if r.faults.any() {
		return // close kills
	}
	r.all(func(h *house) {
		if h.name == "redis" && r.redis == nil {
			h.clear(ctx)
		}
		h.finish()
	})
}

// judge looks for trends in all lives of all servers.
func (r *run) judge() {
	for _, h := range r.houses {
		for _, l := range h.lives {
			for _, rule := range h.rules {
				if !rule.trend() {
					continue // judged at each quiet point
				}
				for _, reason := range rule.judge(l.points) {
					r.faults.add("server %s: %s", h.name, reason)
				}
			}
		}
	}
}

func (r *run) close() {
	for _, h := range r.houses {
		h.stop()
	}
	if r.redis != nil {
		r.redis.close()
	}
}
