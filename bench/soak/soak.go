// Package soak runs millrace servers for a long time under a load of streams, files and blobs. It
// looks for wrong bytes and for growing resource use. The publishers and viewers are in
// internal/load.
//
// The servers are child processes, so that their resource use does not include the clients. A
// receiver can compute every byte that it must receive from a few numbers in the data.
//
// At the end of each cycle, all clients disconnect. The cycle reaches its quiet point when the
// server reports that nothing is in progress. The server's resource use is then compared with
// earlier quiet points of the same process.
package soak

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/millrace-io/millrace/bench/measure"
)

// Config configures a run.
type Config struct {
	Program string   // the server's executable; empty: built from the main module's source
	Env     []string // added to the servers' environment, in the form NAME=value

	For     time.Duration
	Seed    uint64 // seed of the random choices
	Streams int    // FLV streams to each server
	Viewers int    // viewers of each stream; a quarter of them stalls
	Rate    int    // bit rate of a stream, in bits per second
	Keep    string // directory for the logs of a run that failed; empty: logs are discarded

	Cycle      time.Duration // length of a cycle; 0: a thirtieth of For, but between 2 s and 15 s
	Cycles     int           // the run ends after this many cycles; 0: when For is over
	Settle     time.Duration // maximum time until a quiet point
	NoRedis    bool          // do not start the second server, which has its blobs in Redis
	NoRestarts bool
	Hosts      Hosts
}

// Hosts are the addresses of the machine that a run uses.
type Hosts struct {
	Server  string // servers listen there
	Viewers string // viewers connect there
	Others  string // all other clients connect there
}

// Defaults returns the configuration of a run of ten minutes.
func Defaults() Config {
	return Config{For: 10 * time.Minute, Seed: 1, Streams: 2, Viewers: 8, Rate: 2_000_000,
		Settle: 30 * time.Second, Hosts: Hosts{"127.0.0.1", "127.0.0.1", "127.0.0.1"}}
}

func (c *Config) check() error {
	switch {
	case c.For < 3*time.Second || c.For > 7*24*time.Hour:
		return fmt.Errorf("soak: --for is %v, want 3s to a week", c.For)
	case c.Streams < 1 || c.Streams > 100:
		return fmt.Errorf("soak: --streams is %d, want 1 to 100", c.Streams)
	case c.Viewers < 1 || c.Viewers > 1000:
		return fmt.Errorf("soak: --viewers is %d, want 1 to 1000", c.Viewers)
	case c.Rate < 200_000 || c.Rate > 100_000_000:
		return fmt.Errorf("soak: --rate is %d, want 200000 to 100000000", c.Rate)
	}
	if c.Cycle == 0 {
		c.Cycle = min(max(c.For/30, 2*time.Second), 15*time.Second)
	}
	if c.Keep != "" {
		return os.MkdirAll(c.Keep, 0o700)
	}
	return nil
}

// Servers are restarted only in the first restartPart of a run. After that, each server runs until
// the end, so that slow growth of its resource use can be detected.
const restartPart = 1.0 / 3

type run struct {
	cfg     Config
	began   time.Time
	targets []*target
	redis   *measure.Server // nil with NoRedis, or if redis-server is not installed
	cycles  int
	done    tally
	faults  faults
}

// A tally counts the clients' operations, by name. Any goroutine may add to it.
type tally struct {
	mu sync.Mutex
	n  map[string]int64
}

func (t *tally) add(what string, n int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.n == nil {
		t.n = make(map[string]int64)
	}
	t.n[what] += n
}

func (t *tally) get(what string) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.n[what]
}

const (
	checked      = "bytes checked"
	published    = "streams"
	brokenOff    = "streams broken off"
	viewers      = "viewers"
	viewersMP4   = "viewers of MP4"
	viewersHTTP2 = "viewers over HTTP/2"
	toTheEnd     = "viewers to the last tag"
	cutOff       = "viewers disconnected because they were behind"
	tagsLost     = "tags that viewers were moved past"
	fileRequests = "file requests"
	blobRequests = "blob requests"
	interrupted  = "requests that a restart interrupted"
	bySIGTERM    = "restarts by SIGTERM"
	bySIGKILL    = "restarts by SIGKILL"
)

// Run runs a soak until the time is over, a fault is found, or ctx ends. The report has the results
// until then. An error means that the soak could not run. If log is not nil, Run calls it after
// each cycle with a line that describes the cycle.
func Run(ctx context.Context, cfg Config, log func(line string)) (*Report, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "millrace-soak-")
	if err != nil {
		return nil, err
	}
	r := &run{cfg: cfg, began: time.Now()}
	err = r.open(ctx, dir)
	if err == nil {
		for ctx.Err() == nil && !r.faults.any() && !r.isOver() {
			r.cycle(ctx)
			if log != nil {
				log(r.line())
			}
		}
		r.finish()
	}
	cutShort := ctx.Err() != nil
	for _, t := range r.targets {
		t.stop()
	}
	if r.redis != nil {
		r.redis.Stop()
	}
	if err = errors.Join(err, os.RemoveAll(dir)); err != nil {
		return nil, err
	}
	return r.report(cutShort), nil
}

func (r *run) open(ctx context.Context, dir string) (err error) {
	if r.cfg.Program == "" {
		if r.cfg.Program, err = measure.BuildServer(ctx, dir); err != nil {
			return err
		}
	}
	root, blobs := filepath.Join(dir, "files"), filepath.Join(dir, "blobs")
	if err := errors.Join(os.Mkdir(root, 0o700), os.Mkdir(blobs, 0o700),
		makeFiles(root)); err != nil {
		return err
	}
	add := func(name string, rules []rule, flags ...string) error {
		t := newTarget(r, name, dir, rules, append(flags, "--root", root))
		r.targets = append(r.targets, t)
		return t.start(ctx)
	}
	if err := add("directory", rules(0), "--blobs", blobs); err != nil || r.cfg.NoRedis {
		return err
	}
	program, err := exec.LookPath("redis-server")
	if err != nil {
		return nil
	}
	socket := filepath.Join(dir, "redis.sock")
	cmd := exec.Command(program, "--port", "0", "--unixsocket", socket, "--save", "",
		"--appendonly", "no", "--dir", dir)
	if r.redis, err = measure.StartServer(ctx, socket, cmd); err != nil {
		return err
	}
	return add("redis", rules(redisConns), "--redis", "unix://"+socket)
}

// isOver reports whether the run must end. On a busy machine, a run may have fewer cycles than
// planned. It may then continue after its planned end, until there are enough points for the trend
// rules (see pointsWanted).
func (r *run) isOver() bool {
	if r.progress() < 1 {
		return false
	}
	if r.cfg.Cycles > 0 || float64(r.cfg.For)*(1-restartPart) < float64(pointsWanted*r.cfg.Cycle) {
		return true
	}
	for _, t := range r.targets {
		if len(t.points) < pointsWanted {
			return false
		}
	}
	return true
}

// progress returns the fraction of the run that is over: 0 at the start, and at least 1 at the
// planned end.
func (r *run) progress() float64 {
	if r.cfg.Cycles > 0 {
		return float64(r.cycles) / float64(r.cfg.Cycles)
	}
	return float64(time.Since(r.began)) / float64(r.cfg.For)
}

func (r *run) cycle(ctx context.Context) {
	r.cycles++
	var restart syscall.Signal
	if r.cycles > 1 && !r.cfg.NoRestarts && r.progress() <= restartPart {
		restart = []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL}[r.cycles%2]
	}
	var all sync.WaitGroup
	for _, t := range r.targets {
		all.Go(func() {
			c := newCycle(t, r.cycles)
			err := c.run(ctx, restart)
			if err == nil {
				err = t.recordQuietPoint(context.WithoutCancel(ctx))
			}
			if err == nil && restart == 0 {
				err = c.checkLosses()
			}
			if err != nil {
				r.faults.add("server %s: %v", t.name, err)
			}
		})
	}
	all.Wait()
}

func (r *run) line() string {
	s := fmt.Sprintf("%6v  cycle %d: %.1f MB checked, %d viewers, %d requests",
		time.Since(r.began).Round(time.Second), r.cycles,
		float64(r.done.get(checked))/1e6, r.done.get(viewers),
		r.done.get(fileRequests)+r.done.get(blobRequests))
	for _, t := range r.targets {
		if n := len(t.points); n > 0 {
			p := t.points[n-1]
			s += fmt.Sprintf("; %s: %d goroutines, %d descriptors, RSS %.1f MB", t.name,
				p.Goroutines, p.Descriptors, float64(p.RSS)/1e6)
		}
	}
	return s
}

// finish checks the trend rules (see rule). If the run has failed, finish saves the servers' logs
// in Config.Keep. Otherwise, it checks that SIGTERM stops the servers.
func (r *run) finish() {
	for _, t := range r.targets {
		t.judge(trend)
	}
	for _, t := range r.targets {
		if r.faults.any() && r.cfg.Keep != "" {
			if err := t.keepLog(r.cfg.Keep); err != nil {
				r.faults.add("server %s: %v", t.name, err)
			}
		} else if !r.faults.any() {
			if err := t.proc.terminate(); err != nil {
				r.faults.add("server %s: at the end: %v", t.name, err)
			}
		}
	}
}

// A wrongError says that a server sent a wrong byte, tag or answer, which is always a fault. Any
// other error of a client is no fault if the server was being restarted.
type wrongError struct{ text string }

func (e *wrongError) Error() string { return e.text }

func wrong(format string, args ...any) error { return &wrongError{fmt.Sprintf(format, args...)} }

// maxFaults is the maximum number of reported faults. Later faults usually repeat earlier faults.
const maxFaults = 20

type faults struct {
	mu    sync.Mutex
	texts []string
}

func (f *faults) add(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.texts) < maxFaults {
		f.texts = append(f.texts, fmt.Sprintf(format, args...))
	}
}

func (f *faults) any() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.texts) > 0
}
