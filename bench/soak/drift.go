package soak

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/millrace-io/millrace/internal/sleep"
	"github.com/prometheus/procfs"
)

const (
	// warmUp is how many quiet points of a process are not judged: caches fill, and pools grow to
	// the size that the work needs.
	warmUp = 2
	// pointsWanted is how many quiet points a process needs for its drift to be judged: six after
	// the warm-up, so that two are compared with two.
	pointsWanted = warmUp + 6
	// redisConns is how many connections to Redis may be idle at one quiet point and not yet open
	// at an earlier one: 32 that carry values, and some of go-redis.
	redisConns = 48
	// redisBuffers is the buffer memory of each connection.
	redisBuffers = 80 << 10
)

// A point is the memory of a server at one moment.
type point struct {
	At          time.Duration `json:"at_ns"` // since the beginning of the run
	Goroutines  int64         `json:"goroutines"`
	Descriptors int64         `json:"descriptors"`
	Threads     int64         `json:"threads"`
	RSS         int64         `json:"rss_bytes"`
	// Alive after a collection, without idle blocks of the pool.
	Heap      int64 `json:"heap_bytes"`
	PoolInUse int64 `json:"pool_in_use_bytes"`
	PoolIdle  int64 `json:"pool_idle_bytes"`

	busy    int64 // streams, viewers, downloads and uploads in progress
	lost    int64 // tags that viewers were moved past, ever
	dropped int64 // viewers that were disconnected, ever
}

// Kinds of rules.
const (
	capped = iota // no point may be above slack
	steady        // no point after the warm-up may be above an earlier one by more than slack
	// The last third may not be above the first by more than slack and by more than ratio.
	trend
)

// A rule says how one quantity may change from quiet point to quiet point of a process.
type rule struct {
	name  string
	of    func(*point) int64
	kind  int
	slack int64
	ratio float64
}

// rules returns the rules for a server with so many connections to Redis. A trend has two bounds
// because either alone is noise: a heap of 3 MB that becomes 4 has a large ratio, and one of 1 GB
// that wavers has a large difference.
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

// judge returns a fault in the quiet points of one process, or nil.
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

// judge adds the faults that the rules of a kind find in the process's quiet points.
func (t *target) judge(kinds ...int) {
	for _, r := range t.rules {
		if err := r.judge(t.points); err != nil && slices.Contains(kinds, r.kind) {
			t.faults.add("server %s: %v", t.name, err)
		}
	}
}

// quiet waits until the server is idle, and adds its memory to the points.
func (t *target) quiet(ctx context.Context) error {
	p, err := t.settle(ctx)
	if err == nil {
		err = t.collect(ctx)
	}
	var after point
	if err == nil {
		after, err = t.sample(ctx)
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
	// These values are from before the collection, which may start goroutines.
	after.At, after.Goroutines, after.Descriptors, after.PoolInUse = time.Since(t.began),
		p.Goroutines, p.Descriptors, p.PoolInUse
	t.points = append(t.points, after)
	t.judge(capped, steady)
	return nil
}

// settle samples until nothing is in progress and no rule but a trend is broken, and returns the
// last sample after t.cfg.Settle at the latest: a connection that was closed a moment ago keeps its
// goroutine a little longer, and only a leak keeps it for ever. While there is nothing to compare
// with, it takes the least of ten samples.
func (t *target) settle(ctx context.Context) (point, error) {
	deadline := time.Now().Add(t.cfg.Settle)
	var least point
	for looks := 1; ; looks++ {
		// again: a request over HTTP/2 that was given up holds its connection for a moment.
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
			return r.kind != trend &&
				r.judge(points) != nil
		})
		if late || p.busy == 0 && !broken && (len(t.points) > warmUp || looks >= 10) {
			return p, nil
		}
		sleep.For(ctx, pollEvery)
	}
}

// adminClient's connections end with each response, so that they are not counted.
var adminClient = &http.Client{Timeout: timeout,
	Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true}}

// ask gives the server's answer about itself to f.
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

// collect has the server collect its garbage.
func (t *target) collect(ctx context.Context) error {
	return t.ask(ctx, "/debug/pprof/heap?gc=1", func(r io.Reader) error {
		_, err := io.Copy(io.Discard, r)
		return err
	})
}

// sample asks the server about itself, and Linux about the process.
func (t *target) sample(ctx context.Context) (point, error) {
	m := make(map[string]int64)
	err := t.ask(ctx, "/metrics", func(r io.Reader) error { return readMetrics(r, m) })
	if err != nil {
		return point{}, err
	}
	of := func(name string) int64 {
		n, ok := m[name]
		if !ok && err == nil { // a quantity that is not read would never be seen to grow
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
	// The number of goroutines in the metrics has those in it that collect the metrics.
	if err := t.ask(ctx, "/debug/pprof/goroutine?debug=1", func(r io.Reader) error {
		_, err := fmt.Fscanf(r, "goroutine profile: total %d", &p.Goroutines)
		return err
	}); err != nil {
		return p, err
	}
	return p, p.look(t.proc.Cmd.Process.Pid)
}

// look asks Linux, which is better than to ask the process: that has one more descriptor while it
// answers. On other systems it does nothing.
func (p *point) look(pid int) error {
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

// readMetrics reads Prometheus' text format, and sums each metric up over its labels.
func readMetrics(r io.Reader, m map[string]int64) error {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if name == "#" {
			continue
		}
		name, _, _ = strings.Cut(name, "{") // no label here has a space in it
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return fmt.Errorf("metrics: %q: %w", lines.Text(), err)
		}
		m[name] += int64(v)
	}
	return lines.Err()
}
