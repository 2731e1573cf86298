package soak

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// A Sample is what a server holds at one moment. What cannot be known on this system is 0.
type Sample struct {
	Goroutines  int64 `json:"goroutines"`
	Descriptors int64 `json:"descriptors"` // but for those of FilesOpen
	Threads     int64 `json:"threads"`
	RSS         int64 `json:"rss_bytes"`
	Anonymous   int64 `json:"anonymous_bytes"` // of RSS, what is no file's
	Heap        int64 `json:"heap_bytes"`      // alive after a collection, but for what the pool keeps idle
	PoolInUse   int64 `json:"pool_in_use_bytes"`
	PoolIdle    int64 `json:"pool_idle_bytes"`
	FilesOpen   int64 `json:"files_open"` // of those that are served, kept open for the next download

	allocated int64 // ever
	collected int64 // garbage collections, ever
	lost      int64 // frames that viewers were moved past, ever
	dropped   int64 // viewers that were disconnected, ever
	busy      int64 // streams, viewers, downloads and uploads in progress
}

// adminPatience is how long a server may take to answer about itself.
const adminPatience = time.Minute

// A watcher asks a server about itself, and the system about the server.
type watcher struct {
	admin  string
	pid    int
	client *http.Client
}

// newWatcher returns a watcher whose connections end with each answer, so that they are not among what it counts.
func newWatcher(admin string, pid int) *watcher {
	return &watcher{admin, pid, &http.Client{
		Timeout:   adminPatience,
		Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true},
	}}
}

// ask gives the answer to f.
func (w *watcher) ask(ctx context.Context, path string, f func(io.Reader) error) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+w.admin+path, nil)
	if err != nil {
		return err
	}
	res, err := w.client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return &statusError{path, res.StatusCode, ""}
	}
	return f(res.Body)
}

// sample looks at everything. It does not collect garbage.
func (w *watcher) sample(ctx context.Context) (Sample, error) {
	var s Sample
	var m measures
	err := w.ask(ctx, "/metrics", func(r io.Reader) (err error) {
		m, err = readMeasures(r)
		return err
	})
	if err != nil {
		return s, err
	}
	if s, err = m.sample(); err != nil {
		return s, err
	}
	// The number in the metrics has the goroutines in it that collect the metrics.
	if s.Goroutines, err = w.goroutines(ctx); err != nil {
		return s, err
	}
	switch p, err := lookAtProcess(w.pid); {
	case err == nil:
		s.Descriptors, s.Threads, s.RSS, s.Anonymous = p.descriptors, p.threads, p.rss, p.anonymous
	case !errors.Is(err, errors.ErrUnsupported):
		return s, err
	}
	s.Descriptors -= min(s.FilesOpen, s.Descriptors)
	return s, nil
}

// goroutines returns how many there are, with those that give the answer.
func (w *watcher) goroutines(ctx context.Context) (n int64, err error) {
	err = w.ask(ctx, "/debug/pprof/goroutine?debug=1", func(r io.Reader) error {
		_, err := fmt.Fscanf(r, "goroutine profile: total %d", &n)
		return err
	})
	return n, err
}

// collect has the server collect its garbage.
func (w *watcher) collect(ctx context.Context) error {
	return w.ask(ctx, "/debug/pprof/heap?gc=1", func(r io.Reader) error {
		_, err := io.Copy(io.Discard, r)
		return err
	})
}

// measures are metrics by name, summed up over their labels.
type measures map[string]float64

// readMeasures reads Prometheus' text format.
func readMeasures(r io.Reader) (measures, error) {
	m := make(measures)
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		name, value, ok := strings.Cut(lines.Text(), " ")
		if !ok || strings.HasPrefix(name, "#") {
			continue
		}
		if i := strings.IndexByte(name, '{'); i >= 0 { // no label here has a space in it
			name = name[:i]
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return nil, fmt.Errorf("metrics: %q: %w", lines.Text(), err)
		}
		m[name] += v
	}
	return m, lines.Err()
}

// sample takes what is to be watched from the metrics. One that is missing is an error, and so is a 0 of what every process
// has some of: it would never be seen to grow.
func (m measures) sample() (Sample, error) {
	var missing []string
	of := func(name string) int64 {
		v, ok := m[name]
		if !ok {
			missing = append(missing, name)
		}
		return int64(v)
	}
	some := func(name string) int64 {
		if m[name] < 1 {
			missing = append(missing, name)
		}
		return int64(m[name])
	}
	idle := of("millrace_pool_idle_bytes")
	s := Sample{
		// Not every system tells of these two.
		Descriptors: int64(m["process_open_fds"]),
		RSS:         int64(m["process_resident_memory_bytes"]),

		Threads:   some("go_threads"),
		Heap:      max(0, some("go_memstats_heap_alloc_bytes")-idle),
		PoolInUse: of("millrace_pool_in_use_bytes"),
		PoolIdle:  idle,
		FilesOpen: of("millrace_files_open"),
		allocated: some("go_memstats_alloc_bytes_total"),
		collected: of("go_gc_duration_seconds_count"),
		lost:      of("millrace_frames_lost_total"),
		dropped:   of("millrace_viewers_dropped_total"),
	}
	for _, name := range []string{"streams", "viewers", "files_downloads", "blobs_downloads", "blobs_uploads"} {
		s.busy += of("millrace_" + name)
	}
	if len(missing) > 0 {
		return s, fmt.Errorf("metrics: %s: missing or 0", strings.Join(missing, ", "))
	}
	return s, nil
}
