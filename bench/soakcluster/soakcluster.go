// Package soakcluster runs a cluster of three millrace nodes for a long time, with everything at
// once: publishers and viewers over all protocols, recordings, files, blobs, a hook that often
// fails, nginx in front, and a memory limit that matters. Meanwhile it kills and upgrades nodes,
// and makes Redis fail over.
//
// It checks every byte that viewers receive. A frame may be missing only after a failure of a node
// on its way, or if the server has counted it.
package soakcluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/millrace-io/millrace/bench/measure"
)

// Config configures a run.
type Config struct {
	Program string // the server's executable; empty: built from the main module's source

	For     time.Duration // from when everything runs until the clients leave
	Seed    uint64        // seed of the random choices
	Streams int
	Viewers int    // viewers of each stream, over all protocols in turn
	Rate    int    // bit rate of a stream, in bits per second
	Memory  int64  // --memory of each node, in bytes
	Keep    string // directory for the logs of a run that failed; empty: logs are discarded

	Kill, Upgrade, Failover time.Duration // how often; 0: never
}

// Defaults returns the configuration of a run of an hour.
func Defaults() Config {
	return Config{For: time.Hour, Seed: 1, Streams: 200, Viewers: 2, Rate: 200_000,
		Memory: 128 << 20, Kill: 20 * time.Second, Upgrade: 5 * time.Minute,
		Failover: 2 * time.Minute}
}

func (c *Config) check() error {
	switch {
	case c.For < 10*time.Second || c.For > 7*24*time.Hour:
		return fmt.Errorf("soakcluster: --for is %v, want 10s to a week", c.For)
	case c.Streams < 1 || c.Streams > 1000:
		return fmt.Errorf("soakcluster: --streams is %d, want 1 to 1000", c.Streams)
	case c.Viewers < 1 || c.Viewers > 100:
		return fmt.Errorf("soakcluster: --viewers is %d, want 1 to 100", c.Viewers)
	case c.Rate < 160_000 || c.Rate > 20_000_000:
		return fmt.Errorf("soakcluster: --rate is %d, want 160000 to 20000000", c.Rate)
	case c.Memory < 64<<20:
		return fmt.Errorf("soakcluster: --memory is %d, want at least 64 MiB", c.Memory)
	}
	return nil
}

// rest is the time without failures at the end of a run, and the maximum time in which the cluster
// recovers from a failure.
const rest = 15 * time.Second

type run struct {
	cfg     Config
	log     func(string)
	began   time.Time
	dir     string
	site    *site
	streams []*stream
	done    tally
	faults  faults
	events  events
}

// A tally counts by row and column of the report. Any goroutine may add to it.
type tally struct {
	mu sync.Mutex
	n  map[[2]string]int64
}

func (t *tally) add(row, column string, n int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.n == nil {
		t.n = make(map[[2]string]int64)
	}
	t.n[[2]string{row, column}] += n
}

func (t *tally) get(row, column string) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.n[[2]string{row, column}]
}

// faults are the faults of a run. A run ends at the first one.
type faults struct {
	mu    sync.Mutex
	texts []string
	any   chan struct{} // closed at the first fault
}

const maxFaults = 20

func (f *faults) add(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.texts) == 0 {
		close(f.any)
	}
	if len(f.texts) < maxFaults {
		f.texts = append(f.texts, time.Now().UTC().Format("15:04:05.000 ")+
			fmt.Sprintf(format, args...))
	}
}

// Run runs the cluster until the time is over, a fault is found, or ctx ends. An error means that
// the cluster could not run. Run calls log with a line about every ten seconds.
func Run(ctx context.Context, cfg Config, log func(line string)) (*Report, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "millrace-soak-cluster-")
	if err != nil {
		return nil, err
	}
	r := &run{cfg: cfg, log: log, began: time.Now(), dir: dir,
		faults: faults{any: make(chan struct{})}}
	if cfg.Program == "" {
		r.cfg.Program, err = measure.BuildServer(ctx, dir)
	}
	if err == nil {
		r.site, err = openSite(ctx, r)
	}
	if err == nil {
		r.began = time.Now()
		r.load(ctx)
	}
	rep := r.report(ctx.Err() != nil)
	if r.site != nil {
		rep.Nodes = r.site.summary()
		if len(rep.Faults) > 0 && cfg.Keep != "" {
			err = errors.Join(err, keepLogs(dir, cfg.Keep))
		}
		r.site.close()
	}
	if err = errors.Join(err, os.RemoveAll(dir)); err != nil {
		return nil, err
	}
	return rep, nil
}

// load runs the clients and the failures. At the end it checks what the clients cannot see.
func (r *run) load(ctx context.Context) {
	var all sync.WaitGroup
	clients, leave := context.WithCancel(ctx)
	defer leave()
	for i := range r.cfg.Streams {
		r.streams = append(r.streams, newStream(r, i))
	}
	watching, stop := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() { r.site.watch(watching) })
	for i, s := range r.streams {
		all.Go(func() { s.publish(clients) })
		for j := range r.cfg.Viewers {
			all.Go(func() { newViewer(s, i*r.cfg.Viewers+j).run(clients) })
		}
		if s.isPushed() {
			all.Go(func() { newPushedViewer(s).run(clients) })
		}
	}
	for i := range r.site.nodes {
		all.Go(func() { r.blobs(clients, i) })
		all.Go(func() { r.files(clients, i) })
	}
	r.fail(ctx)
	select {
	case <-ctx.Done():
	case <-r.faults.any:
	case <-time.After(rest):
	}
	leave()
	all.Wait()
	r.judgeGaps()
	if ctx.Err() == nil && len(r.faults.texts) == 0 {
		r.site.checkReleased(ctx)
	}
	stop()
	watch.Wait()
	if ctx.Err() == nil && len(r.faults.texts) == 0 {
		r.site.terminate()
		r.checkRecordings()
	}
}

func keepLogs(from, to string) error {
	names, err := filepath.Glob(filepath.Join(from, "*.log"))
	err = errors.Join(err, os.MkdirAll(to, 0o700))
	for _, name := range names {
		text, e := os.ReadFile(name)
		err = errors.Join(err, e, os.WriteFile(filepath.Join(to, filepath.Base(name)), text, 0o600))
	}
	return err
}
