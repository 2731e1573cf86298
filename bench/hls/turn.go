package hls

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/millrace-io/millrace/bench/measure"
	"github.com/millrace-io/millrace/internal/sleep"
)

type testCase struct {
	parts   bool
	viewers int
	bitRate int
	ramp    time.Duration // time in which the viewers connect
	settle  time.Duration
	measure time.Duration
}

type result struct {
	seconds   float64
	server    time.Duration // CPU time
	generator time.Duration // CPU time
	rss       int64         // peak memory of the server, in bytes
	bytes     int64         // bytes of media that viewers received
	requests  int64
	fetched   int64 // fetched parts or segments
	missing   int   // number of tags that the observer did not receive
	ended     map[string]int

	perPart    float64 // playlists rendered per part; NaN if the server does not report them
	perRequest float64 // allocations per request; NaN if the server does not report them

	newest     []time.Duration // from sentTags.newest to the arrival of the part, sorted
	completing []time.Duration // from sentTags.completing to the arrival of the part, sorted
	late       []time.Duration // delays of the publisher, sorted
}

// startTime is the maximum time to wait for the first playlist. It is much longer than a segment.
const startTime = 30 * time.Second

func (c testCase) take(ctx context.Context, who contender) (*result, error) {
	dir, err := tempDir()
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	server, err := who.start(ctx, dir)
	if err != nil {
		return nil, err
	}
	defer server.Stop()

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	sent := &sentTags{bitRate: c.bitRate}
	published := make(chan error, 1)
	go func() { published <- sent.publish(ctx, server.publish, stream) }()

	a := &audience{addr: server.addr, path: server.path, parts: c.parts}
	res := &result{ended: make(map[string]int)}
	observer := newViewer(a, newChecker(sent.synth()))
	viewers := make([]*viewer, c.viewers)
	err = a.await(ctx, published)
	if err == nil {
		err = c.watch(ctx, who, server, a, observer, viewers, res)
	}
	cancel()
	if perr := <-published; err == nil && !errors.Is(perr, context.Canceled) {
		err = fmt.Errorf("publishing: %w", perr)
	}
	if err != nil {
		return nil, err
	}
	res.missing = observer.checker.countMissing()
	res.spread(viewers, sent)
	return res, nil
}

// await waits until the playlist lists something that the viewers can fetch.
func (a *audience) await(ctx context.Context, published chan error) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	for {
		err := a.look(ctx)
		if err == nil {
			return nil
		}
		select {
		case perr := <-published:
			published <- perr
			return fmt.Errorf("publishing: %w", perr)
		case <-ctx.Done():
			return fmt.Errorf("no stream to watch: %w", err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

var errEmpty = errors.New("the playlist lists nothing yet")

func (a *audience) look(ctx context.Context) (err error) {
	v := newViewer(a, nil)
	if v.c, err = connect(ctx, v.addr); err != nil {
		return err
	}
	defer v.c.close()
	path, err := v.media()
	if err != nil {
		return err
	}
	m, err := v.reload(path, "")
	if err == nil && (len(m.segments) == 0 || a.parts && len(m.parts) == 0) {
		err = errEmpty
	}
	return err
}

func (c testCase) watch(ctx context.Context, who contender, server *running, a *audience,
	observer *viewer, viewers []*viewer,
	res *result) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var mu sync.Mutex
	var seen error // error of the observer
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	run := func(v *viewer) {
		all.Go(func() {
			err := v.watch(ctx)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case ctx.Err() != nil:
			case v == observer:
				seen = fmt.Errorf("the observer ended early: %w", err)
				cancel()
			default:
				res.ended[fmt.Sprint(err)]++
			}
		})
	}
	run(observer)
	began := time.Now()
	for i := range viewers {
		viewers[i] = newViewer(a, nil)
		if !sleep.For(
			ctx, time.Until(began.Add(c.ramp*time.Duration(i)/time.Duration(len(viewers))))) {
			break
		}
		run(viewers[i])
	}
	sleep.For(ctx, time.Until(began.Add(c.ramp+c.settle)))
	var before, after state
	var err error
	if ctx.Err() == nil {
		before, err = readState(ctx, who, server, observer, viewers)
	}
	if err == nil && ctx.Err() == nil {
		a.measuring.Store(true)
		sleep.For(ctx, time.Until(before.at.Add(c.measure)))
		a.measuring.Store(false)
		after, err = readState(ctx, who, server, observer, viewers)
	}
	early := ctx.Err() != nil
	cancel()
	all.Wait()
	switch {
	case seen != nil:
		return seen
	case err != nil:
		return err
	case early:
		return context.Canceled
	}
	res.between(before, after, who.counters)
	return nil
}

type state struct {
	at              time.Time
	server          measure.Usage
	generator       time.Duration
	bytes, requests int64
	fetched         int64
	made            int64 // parts or segments that the observer fetched
	counters        map[string]float64
}

func readState(ctx context.Context, who contender, server *running, observer *viewer,
	viewers []*viewer) (s state, err error) {
	if who.counters != (counters{}) {
		if s.counters, err = scrape(ctx, server.addr); err != nil {
			return s, err
		}
	}
	s.at, s.generator = time.Now(), measure.CPU()
	if s.server, err = measure.UsageOf(server.PIDs); err != nil {
		return s, err
	}
	s.made = observer.fetched.Load()
	for _, v := range viewers {
		s.bytes += v.bytes.Load()
		s.requests += v.requests.Load()
		s.fetched += v.fetched.Load()
	}
	return s, nil
}

// scrape reads the server's metrics. It omits metrics with labels.
func scrape(ctx context.Context, addr string) (map[string]float64, error) {
	c, err := connect(ctx, addr)
	if err != nil {
		return nil, err
	}
	defer c.close()
	raw, gzipped, err := c.getText("/metrics", "")
	if err == nil {
		raw, err = plainText(raw, gzipped)
	}
	if err != nil {
		return nil, fmt.Errorf("/metrics: %w", err)
	}
	all := make(map[string]float64)
	for line := range bytes.Lines(raw) {
		if name, value, ok := bytes.Cut(bytes.TrimSpace(line), []byte(" ")); ok && name[0] != '#' {
			if v, err := strconv.ParseFloat(string(value), 64); err == nil {
				all[string(name)] = v
			}
		}
	}
	return all, nil
}

func (r *result) between(a, b state, names counters) {
	r.seconds = b.at.Sub(a.at).Seconds()
	r.server, r.generator = b.server.CPU-a.server.CPU, b.generator-a.generator
	r.rss = b.server.Peak
	r.bytes, r.requests = b.bytes-a.bytes, b.requests-a.requests
	r.fetched = b.fetched - a.fetched
	count := func(name string) float64 {
		if name == "" {
			return nan
		}
		return b.counters[name] - a.counters[name]
	}
	r.perPart = count(names.rendered) / float64(b.made-a.made)
	r.perRequest = count(names.allocs) / float64(r.requests)
}

func (r *result) spread(viewers []*viewer, sent *sentTags) {
	for _, v := range viewers {
		for _, s := range v.got {
			if s.contents == (contents{}) {
				continue // the observer ended before it fetched this part or segment
			}
			if at, ok := sent.completing(s.contents); ok {
				r.newest = append(r.newest, s.at.Sub(sent.newest(s.contents)))
				r.completing = append(r.completing, s.at.Sub(at))
			}
		}
	}
	r.late = sent.late
	for _, s := range [][]time.Duration{r.newest, r.completing, r.late} {
		slices.Sort(s)
	}
}

// quantile returns the q quantile of a sorted list, in milliseconds, or NaN for an empty list.
func quantile(sorted []time.Duration, q float64) float64 {
	if len(sorted) == 0 {
		return nan
	}
	return float64(sorted[int(q*float64(len(sorted)-1))]) / float64(time.Millisecond)
}
