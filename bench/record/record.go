// Package record takes samples of a load, the Go runtime and the kernel at the same times. A sample
// has the load's latencies, this process's garbage collections, and kernel events. A CPU profile
// and a heap profile are stored next to the table.
//
// If bpftrace may attach, it counts retransmissions and measures how long threads wait for a
// processor. On most machines, TCP_INFO and /proc/self/task/*/schedstat provide part of these
// values instead.
package record

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"runtime/metrics"
	"runtime/pprof"
	"slices"
	"syscall"
	"time"
)

// A Sample has the values of one interval.
type Sample struct {
	At      time.Duration // end of the interval, from the beginning of the record
	Length  time.Duration
	Load    Load
	Runtime Runtime
	Kernel  Kernel
}

// A Load has the results of the operations in one interval.
type Load struct {
	Operations, Bytes, Errors int64
	P50, P99                  time.Duration // latencies of the operations
}

// A Runtime has the statistics of the Go runtime for one interval. HeapBytes and Goroutines are the
// values at the end of the interval.
type Runtime struct {
	GCs        uint64
	PauseMax   time.Duration // upper limit of the longest garbage collection pause
	SchedP99   time.Duration // 99th percentile of the times that goroutines waited to run
	AllocBytes uint64
	HeapBytes  uint64
	Goroutines uint64
}

// A Kernel has the statistics of the operating system's kernel for one interval.
type Kernel struct {
	Retransmits int64
	// RunQueue is the time that threads waited for a processor: the 99th percentile with bpftrace,
	// or the mean with schedstat.
	RunQueue    time.Duration
	RTT         time.Duration // median of the connections, from TCP_INFO
	MinorFaults int64
	MajorFaults int64
}

// A Timeline is the result of Record.
type Timeline struct {
	Samples []Sample
	Kernel  string        // source of Retransmits and RunQueue
	Note    string        // why bpftrace was not used; "" if it was used or not requested
	Cost    time.Duration // total time spent on taking samples
}

// Options configure a recording.
type Options struct {
	Interval time.Duration
	Load     func() Load           // returns the operations since the last call
	Conns    func() []syscall.Conn // returns the connections of this process, for TCP_INFO
	Profiles string                // directory for CPU and heap profiles; empty: no profiles
	Bpftrace bool                  // whether to try bpftrace
	Logf     func(string, ...any)  // logs the source of the kernel's values
}

// Record calls f. It takes a sample after every o.Interval, and when f returns. It returns an error
// if f fails, or if a profile cannot be written.
func Record(o Options, f func() error) (*Timeline, error) {
	writeProfiles, err := startProfiles(o.Profiles)
	if err != nil {
		return nil, err
	}
	k := openKernel(o)
	defer k.close()
	line := &Timeline{Kernel: k.source, Note: k.note}
	o.Logf("record: the kernel is watched by %s%s", line.Kernel, line.Note)
	var r goRuntime
	r.open()
	o.Load() // discard earlier operations
	k.read(new(Kernel))
	began, last := time.Now(), time.Duration(0)
	sample := func() {
		s := Sample{At: time.Since(began), Load: o.Load()}
		s.Length, last = s.At-last, s.At
		r.read(&s.Runtime)
		k.read(&s.Kernel)
		line.Samples = append(line.Samples, s)
		line.Cost += time.Since(began) - s.At
	}
	done := make(chan error, 1)
	go func() { done <- f() }()
	ticker := time.NewTicker(o.Interval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			sample()
		case err := <-done:
			sample()
			return line, errors.Join(err, writeProfiles())
		}
	}
}

// startProfiles starts a CPU profile in dir. The returned function stops the CPU profile and writes
// a heap profile. If dir is empty, no profiles are written.
func startProfiles(dir string) (write func() error, err error) {
	if dir == "" {
		return func() error { return nil }, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	cpu, err := os.Create(filepath.Join(dir, "record-cpu.pprof"))
	if err != nil {
		return nil, err
	}
	heap, err := os.Create(filepath.Join(dir, "record-heap.pprof"))
	if err == nil {
		err = pprof.StartCPUProfile(cpu)
	}
	return func() error {
		pprof.StopCPUProfile()
		return errors.Join(cpu.Close(), pprof.WriteHeapProfile(heap), heap.Close())
	}, err
}

// Indexes of the metrics in metricNames and goRuntime.samples.
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
	cycles: "/gc/cycles/total:gc-cycles", pauses: "/sched/pauses/total/gc:seconds",
	scheduling: "/sched/latencies:seconds",
	allocBytes: "/gc/heap/allocs:bytes", heapBytes: "/memory/classes/heap/objects:bytes",
	goroutines: "/sched/goroutines:goroutines",
}

// A goRuntime reads runtime/metrics. It keeps the previous values of the counters.
type goRuntime struct {
	samples            [metricCount]metrics.Sample
	cycles, allocBytes uint64
	pauses, scheduling []uint64 // previous counts of the histograms' buckets
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

// quantile returns the q quantile of the events in h since the previous call, rounded up to the
// limit of a bucket. If there were no events, it returns 0. The counts of h are kept in *counts
// between calls.
func quantile(h *metrics.Float64Histogram, counts *[]uint64, q float64) time.Duration {
	now := slices.Clone(h.Counts)
	news, sum := slices.Clone(now), uint64(0)
	for i := range news {
		if len(*counts) > 0 {
			news[i] -= (*counts)[i]
		}
		sum += news[i]
	}
	*counts = now
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
