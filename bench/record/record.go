// Package record watches a load, the Go runtime and the kernel on one clock: operations and their latencies, collections,
// heap and scheduling of this process, and what the kernel did meanwhile. A bpftrace script counts retransmissions and
// measures how long threads wait for a processor, where bpftrace is installed and may attach; otherwise TCP_INFO and
// /proc/self/task/*/schedstat say as much of it as they can. A CPU and a heap profile lie beside the table.
package record

import (
	"math"
	"os"
	"path/filepath"
	"runtime/metrics"
	"runtime/pprof"
	"slices"
	"sync"
	"syscall"
	"time"
)

// A Sample is one interval. Load and runtime are read at its end; the kernel's events carry their own time.
type Sample struct {
	At      time.Duration // when the interval ended, since the record began
	Length  time.Duration
	Load    Load
	Runtime Runtime
	Kernel  Kernel
}

// A Load is what a load did in an interval.
type Load struct {
	Operations, Bytes, Errors int64
	P50, P99                  time.Duration // of the operations' latencies
}

// Runtime is what Go's runtime did in an interval, and the state of its memory at the end.
type Runtime struct {
	GCs        uint64
	PauseMax   time.Duration // the longest pause of a collection, at most this
	SchedP99   time.Duration // that a goroutine waited to run
	AllocBytes uint64
	HeapBytes  uint64
	Goroutines uint64
}

// Kernel is what the kernel did in an interval.
type Kernel struct {
	Retransmits int64
	RunQueue    time.Duration // that a thread waited for a processor: the p99 by bpftrace, the mean by schedstat
	RTT         time.Duration // of the connections, the median of TCP_INFO's
	MinorFaults int64
	MajorFaults int64
}

// A Timeline is a finished record.
type Timeline struct {
	Samples []Sample
	Kernel  string // where the kernel's retransmissions and run queue come from
	Note    string // why bpftrace was not used; "" if it was
	Cost    time.Duration
}

// Options say what is recorded.
type Options struct {
	Interval time.Duration
	Load     func() Load           // what happened since the last call
	Conns    func() []syscall.Conn // connections of this process, for TCP_INFO
	Profiles string                // directory for cpu.pprof and heap.pprof; none if empty
	Bpftrace bool                  // try bpftrace
	Logf     func(string, ...any)  // told which source the kernel has
}

// A Recorder samples until Stop.
type Recorder struct {
	o       Options
	began   time.Time
	kernel  *kernel
	runtime goRuntime
	cpu     *os.File // the CPU profile; nil for none
	quit    chan struct{}
	done    sync.WaitGroup
	line    Timeline // of the sampling goroutine until Stop has waited for it
}

// Start begins to record. The caller ends it with Stop.
func Start(o Options) (*Recorder, error) {
	r := &Recorder{o: o, quit: make(chan struct{})}
	if o.Profiles != "" {
		if err := os.MkdirAll(o.Profiles, 0o755); err != nil {
			return nil, err
		}
		f, err := os.Create(filepath.Join(o.Profiles, "record-cpu.pprof"))
		if err != nil {
			return nil, err
		}
		if err := pprof.StartCPUProfile(f); err != nil {
			f.Close()
			return nil, err
		}
		r.cpu = f
	}
	r.kernel = openKernel(o)
	r.line.Kernel, r.line.Note = r.kernel.source, r.kernel.note
	o.Logf("record: the kernel is watched by %s%s", r.line.Kernel, r.line.Note)
	r.runtime.open()
	o.Load() // what was before does not count
	r.began = time.Now()
	r.kernel.begin()
	r.done.Go(r.run)
	return r, nil
}

func (r *Recorder) run() {
	ticker := time.NewTicker(r.o.Interval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			r.sample()
		case <-r.quit:
			r.sample()
			return
		}
	}
}

func (r *Recorder) sample() {
	s := Sample{At: time.Since(r.began)}
	if n := len(r.line.Samples); n > 0 {
		s.Length = s.At - r.line.Samples[n-1].At
	} else {
		s.Length = s.At
	}
	s.Load = r.o.Load()
	r.runtime.read(&s.Runtime)
	r.kernel.read(&s.Kernel)
	r.line.Samples = append(r.line.Samples, s)
	r.line.Cost += time.Since(r.began) - s.At
}

// Stop takes the last sample, detaches from the kernel, writes the profiles and returns the record.
func (r *Recorder) Stop() (*Timeline, error) {
	close(r.quit)
	r.done.Wait()
	r.kernel.close(r.line.Samples)
	if r.cpu == nil {
		return &r.line, nil
	}
	pprof.StopCPUProfile()
	if err := r.cpu.Close(); err != nil {
		return &r.line, err
	}
	f, err := os.Create(filepath.Join(r.o.Profiles, "record-heap.pprof"))
	if err != nil {
		return &r.line, err
	}
	defer f.Close()
	return &r.line, pprof.WriteHeapProfile(f)
}

// Names of runtime metrics, and their places in goRuntime.samples.
const (
	cycles = iota
	pauses
	scheduling
	allocBytes
	heapBytes
	goroutines
	metricCount
)

var metricNames = [metricCount]string{
	cycles: "/gc/cycles/total:gc-cycles", pauses: "/sched/pauses/total/gc:seconds", scheduling: "/sched/latencies:seconds",
	allocBytes: "/gc/heap/allocs:bytes", heapBytes: "/memory/classes/heap/objects:bytes", goroutines: "/sched/goroutines:goroutines",
}

// A goRuntime reads runtime/metrics, and keeps the last values of those that only grow.
type goRuntime struct {
	samples            [metricCount]metrics.Sample
	cycles, allocBytes uint64
	pauses, scheduling []uint64 // counts of the histograms
}

func (r *goRuntime) open() {
	for i, name := range metricNames {
		r.samples[i].Name = name
	}
	r.read(new(Runtime))
}

func (r *goRuntime) read(s *Runtime) {
	metrics.Read(r.samples[:])
	grown := func(last *uint64, now uint64) uint64 {
		d := now - *last
		*last = now
		return d
	}
	*s = Runtime{
		GCs:        grown(&r.cycles, r.samples[cycles].Value.Uint64()),
		PauseMax:   quantile(r.samples[pauses].Value.Float64Histogram(), &r.pauses, 1),
		SchedP99:   quantile(r.samples[scheduling].Value.Float64Histogram(), &r.scheduling, 0.99),
		AllocBytes: grown(&r.allocBytes, r.samples[allocBytes].Value.Uint64()),
		HeapBytes:  r.samples[heapBytes].Value.Uint64(),
		Goroutines: r.samples[goroutines].Value.Uint64(),
	}
}

// quantile returns the upper end of the bucket that has the quantile of what has come since last, 0 if nothing has.
func quantile(h *metrics.Float64Histogram, last *[]uint64, q float64) time.Duration {
	now := slices.Clone(h.Counts)
	news, sum := slices.Clone(now), uint64(0)
	for i := range news {
		if len(*last) > 0 {
			news[i] -= (*last)[i]
		}
		sum += news[i]
	}
	*last = now
	seen := uint64(0)
	for i, n := range news {
		if seen += n; n > 0 && float64(seen) >= q*float64(sum) {
			high := h.Buckets[i+1]
			if math.IsInf(high, 1) {
				high = h.Buckets[i]
			}
			return time.Duration(high * float64(time.Second))
		}
	}
	return 0
}
