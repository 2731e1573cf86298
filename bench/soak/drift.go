package soak

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/millrace-io/millrace/bench/measure"
	"github.com/millrace-io/millrace/internal/sleep"
	"github.com/prometheus/procfs"
)

const (
	// Rules of the kinds steady and trend ignore the first warmUp points of each process. In a new
	// process, caches and pools still grow.
	warmUp = 2
	// A rule of the kind trend needs at least pointsWanted points: two for each third of the points
	// after the warm-up.
	pointsWanted = warmUp + 6
	// A server may open up to redisConns connections to Redis: 32 to transfer blobs, and a few that
	// go-redis opens for other commands.
	redisConns = 48
	// redisBuffers is the size in bytes of the buffers for one connection to Redis.
	redisBuffers = 80 << 10
)

// A point is the resource use of a server at one moment.
type point struct {
	At          time.Duration `json:"at_ns"` // since the beginning of the run
	Goroutines  int64         `json:"goroutines"`
	Descriptors int64         `json:"descriptors"`
	Threads     int64         `json:"threads"`
	RSS         int64         `json:"rss_bytes"`
	// Bytes in use after a garbage collection, excluding the idle blocks of the pool.
	Heap      int64 `json:"heap_bytes"`
	PoolInUse int64 `json:"pool_in_use_bytes"`
	PoolIdle  int64 `json:"pool_idle_bytes"`

	busy    int64 // streams, viewers, downloads and uploads in progress
	lost    int64 // tags skipped for viewers, since the start of the process
	dropped int64 // viewers disconnected, since the start of the process
}

const (
	capped = iota // no point may exceed rule.slack
	steady        // no point after the warm-up may exceed an earlier point by more than rule.slack
	// The points after the warm-up are divided into thirds. The median of the last third may exceed
	// the median of the first third by rule.slack or by the factor rule.ratio, whichever allows
	// more.
	trend
)

type rule struct {
	name  string
	of    func(*point) int64
	kind  int // capped, steady or trend
	slack int64
	ratio float64
}

// rules returns the rules for a server with up to redisConns connections to Redis.
//
// A trend rule has two limits, slack and ratio. Growth is a fault only if it exceeds both limits. A
// small heap may therefore grow by a large ratio, and a large heap by many megabytes.
func rules(redisConns int64) []rule {
	return []rule{
		{"goroutines", func(p *point) int64 { return p.Goroutines }, steady, 0, 0},
		{"descriptors", func(p *point) int64 { return p.Descriptors }, steady, redisConns, 0},
		{"pool in use", func(p *point) int64 { return p.PoolInUse }, capped, 0, 0},
		{"threads", func(p *point) int64 { return p.Threads }, trend, 12, 1.5},
		{"heap", func(p *point) int64 { return p.Heap }, trend, 3<<20 + redisConns*redisBuffers,
			1.25},
		{"RSS", func(p *point) int64 { return p.RSS }, trend, 24 << 20, 1.25},
		{"pool idle", func(p *point) int64 { return p.PoolIdle }, trend, 24 << 20, 1.5},
	}
}

// judge returns an error if the quiet points of a process break the rule.
func (r rule) judge(points []point) error {
	if r.kind == capped {
		for i := range points {
			if n := r.of(&points[i]); n > r.slack {
				return fmt.Errorf("%s: %d at quiet point %d, want at most %d", r.name, n, i+1,
					r.slack)
			}
		}
		return nil
	}
	if len(points) <= warmUp || r.kind == trend && len(points) < pointsWanted {
		return nil
	}
	var v []int64
	for i := range points[warmUp:] {
		v = append(v, r.of(&points[warmUp+i]))
	}
	if r.kind == steady {
		for i, n := range v {
			if least := slices.Min(v[:i+1]); n > least+r.slack {
				return fmt.Errorf("%s: %d at quiet point %d, after %d", r.name, n, warmUp+i+1,
					least)
			}
		}
		return nil
	}
	third := len(v) / 3
	before, after := median(v[:third]), median(v[len(v)-third:])
	if after-before <= r.slack || float64(after) <= float64(before)*r.ratio {
		return nil
	}
	return fmt.Errorf("%s grows: from %d in the first third to %d in the last", r.name, before,
		after)
}

func median(v []int64) int64 {
	v = slices.Sorted(slices.Values(v))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// judge records a fault if the current server process breaks a rule of the given kinds.
func (t *target) judge(kinds ...int) {
	for _, r := range t.rules {
		if err := r.judge(t.points); err != nil && slices.Contains(kinds, r.kind) {
			t.faults.add("server %s: %v", t.name, err)
		}
	}
}

// recordQuietPoint waits until the server is idle, and appends the server's resource use to
// t.points.
func (t *target) recordQuietPoint(ctx context.Context) error {
	p, err := t.settle(ctx)
	if err == nil {
		err = t.collectGarbage(ctx)
	}
	var after point
	if err == nil {
		after, err = t.sample(ctx)
	}
	if err == nil {
		err = t.checkLeaks(ctx)
	}
	if err == nil {
		err = t.proc.complaint()
	}
	if dead := t.proc.alive(); err != nil && dead != nil {
		err = fmt.Errorf("%w\n%s", dead, t.proc.tail())
	}
	if err != nil {
		return err
	}
	// Use the values from before the collection, which may start goroutines.
	after.At, after.Goroutines, after.Descriptors, after.PoolInUse = time.Since(t.began),
		p.Goroutines, p.Descriptors, p.PoolInUse
	t.points = append(t.points, after)
	t.judge(capped, steady)
	return nil
}

// settle takes samples of the server's resource use until the server is idle and breaks no rule of
// the kinds capped and steady. It returns the last sample. More than one sample may be necessary,
// because the goroutines of closed connections take some time to end.
//
// In a new process, the steady rules do not apply yet (see warmUp). settle then takes at least ten
// samples, and returns the smallest number of goroutines and the smallest number of descriptors.
//
// settle waits for at most t.cfg.Settle. If the server is still not idle, settle returns an error.
// If the server is idle but still breaks a rule, settle returns the last sample.
func (t *target) settle(ctx context.Context) (point, error) {
	deadline := time.Now().Add(t.cfg.Settle)
	var least point
	for looks := 1; ; looks++ {
		// Repeat this, because an abandoned HTTP/2 request keeps its connection for a moment.
		t.hangUp()
		p, err := t.sample(ctx)
		if err != nil {
			return p, err
		}
		if looks > 1 && len(t.points) <= warmUp {
			p.Goroutines, p.Descriptors = min(p.Goroutines, least.Goroutines),
				min(p.Descriptors, least.Descriptors)
		}
		least = p
		late := time.Now().After(deadline)
		if late && p.busy > 0 {
			return p, fmt.Errorf(
				"%d streams, viewers, downloads and uploads are in progress, says the server, %v after all have left",
				p.busy, t.cfg.Settle)
		}
		points := append(slices.Clone(t.points), p)
		broken := slices.ContainsFunc(t.rules, func(r rule) bool {
			return r.kind != trend && r.judge(points) != nil
		})
		if late || p.busy == 0 && !broken && (len(t.points) > warmUp || looks >= 10) {
			return p, nil
		}
		sleep.For(ctx, pollEvery)
	}
}

// adminClient closes its connection after each response, because an open connection would count as
// a descriptor of the server.
var adminClient = &http.Client{Timeout: timeout,
	Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true}}

func (t *target) ask(ctx context.Context, path string, f func(io.Reader) error) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, t.admin+path, nil)
	if err != nil {
		return err
	}
	res, err := adminClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return statusOf(path, res)
	}
	return f(res.Body)
}

func (t *target) collectGarbage(ctx context.Context) error {
	return t.ask(ctx, "/debug/pprof/heap?gc=1", func(r io.Reader) error {
		_, err := io.Copy(io.Discard, r)
		return err
	})
}

// checkLeaks returns an error if goroutines of the server wait for something that cannot happen any
// more. If the server was built without the profile of leaked goroutines, it does nothing.
func (t *target) checkLeaks(ctx context.Context) error {
	err := t.ask(ctx, "/debug/pprof/goroutineleak?debug=1", measure.CheckLeaks)
	if status, ok := errors.AsType[*statusError](err); ok && status.status == http.StatusNotFound {
		return nil
	}
	return err
}

// sample measures the resource use of the server. It reads the server's metrics and goroutine
// profile, and /proc.
func (t *target) sample(ctx context.Context) (point, error) {
	m := make(map[string]int64)
	err := t.ask(ctx, "/metrics", func(r io.Reader) error { return measure.ReadMetrics(r, m) })
	if err != nil {
		return point{}, err
	}
	of := func(name string) int64 {
		n, ok := m[name]
		if !ok && err == nil { // a missing metric would hide its growth
			err = fmt.Errorf("the metrics have no %s", name)
		}
		return n
	}
	p := point{
		Threads: of("go_threads"), Heap: of("go_memstats_heap_alloc_bytes"),
		PoolInUse: of("millrace_pool_in_use_bytes"), PoolIdle: of("millrace_pool_idle_bytes"),
		lost: of("millrace_frames_lost_total"), dropped: of("millrace_viewers_dropped_total"),
	}
	p.Heap = max(0, p.Heap-p.PoolIdle)
	for _, name := range []string{"streams", "viewers", "files_downloads", "blobs_downloads",
		"blobs_uploads"} {
		p.busy += of("millrace_" + name)
	}
	if err != nil {
		return p, err
	}
	// Read the profile, because the metrics also count the goroutines that collect the metrics.
	if err := t.ask(ctx, "/debug/pprof/goroutine?debug=1", func(r io.Reader) error {
		_, err := fmt.Fscanf(r, "goroutine profile: total %d", &p.Goroutines)
		return err
	}); err != nil {
		return p, err
	}
	return p, p.readProc(t.proc.Cmd.Process.Pid)
}

// readProc reads the resident memory and the number of descriptors of a process from /proc. On
// systems without /proc, it does nothing.
//
// The number of descriptors in the server's metrics is not used, because it includes the connection
// over which the metrics are sent.
func (p *point) readProc(pid int) error {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return nil
	}
	proc, err := fs.Proc(pid)
	if err != nil {
		return err
	}
	status, err := proc.NewStatus()
	open, err2 := proc.FileDescriptorsLen()
	p.RSS, p.Descriptors = int64(status.VmRSS), int64(open)
	return errors.Join(err, err2)
}
