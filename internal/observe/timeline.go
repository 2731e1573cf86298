package observe

import "time"

// A Timeline is what a Recorder saw, sample by sample, on one clock: the monotonic one, from Began on. Durations are
// nanoseconds in JSON.
//
// len(Samples) ≤ MaxSamples, Samples[i].At < Samples[i+1].At and Samples[i].At - Samples[i].Length == Samples[i-1].At.
type Timeline struct {
	Began time.Time `json:"began"`
	// Interval is what most samples last: Options.Interval, doubled as often as the samples had to be merged.
	Interval time.Duration `json:"interval_ns"`
	Kernel   KernelReport  `json:"kernel"`
	Cost     Cost          `json:"cost"`
	Samples  []Sample      `json:"samples"`
	Profiles []string      `json:"profiles,omitempty"` // files written, in Options.Profiles
	Notes    []string      `json:"notes,omitempty"`    // what a reader of the figures has to know besides
}

// A Sample is one interval, the three layers of it read one after the other at its end.
type Sample struct {
	At      time.Duration `json:"at_ns"`     // the interval's end, since Timeline.Began
	Length  time.Duration `json:"length_ns"` // the interval is (At-Length, At]
	Load    LoadSample    `json:"load"`
	Runtime RuntimeSample `json:"runtime"`
	Kernel  KernelSample  `json:"kernel"`
}

// A LoadSample is what Options.Load said about the interval; zero without one.
type LoadSample struct {
	Operations int64         `json:"operations"`
	Bytes      int64         `json:"bytes"`
	Errors     int64         `json:"errors"`
	Rate       float64       `json:"operations_per_second"`
	ByteRate   float64       `json:"bytes_per_second"`
	P50        time.Duration `json:"p50_ns"`
	P95        time.Duration `json:"p95_ns"`
	P99        time.Duration `json:"p99_ns"`
}

// A RuntimeSample is what runtime/metrics says of this process: what happened in the interval, and, for memory and
// goroutines, how things stood at its end.
type RuntimeSample struct {
	GCs        int64         `json:"gcs"` // cycles completed
	GCPauses   Spread        `json:"gc_pauses"`
	GCCPU      time.Duration `json:"gc_cpu_ns"`   // counted by the runtime when a cycle ends, so it comes in lumps
	HeapBytes  int64         `json:"heap_bytes"`  // objects, dead ones that are not swept yet with them
	TotalBytes int64         `json:"total_bytes"` // all that the runtime has mapped
	Goroutines int64         `json:"goroutines"`
	// Scheduling is how long goroutines that could run waited until they did.
	Scheduling       Spread `json:"scheduling"`
	AllocatedBytes   int64  `json:"allocated_bytes"`
	AllocatedObjects int64  `json:"allocated_objects"`
}

// A KernelSample is what the kernel did for the load in the interval. KernelReport says where each figure comes from and
// for whom it counts; a figure whose source is SourceNone is zero.
type KernelSample struct {
	Retransmits int64 `json:"retransmits"` // TCP segments sent again
	// RTT is of the smoothed round trips: by tracepoint, one for each segment that arrived; by TCP_INFO, one for each
	// connection.
	RTT Spread `json:"rtt"`
	// RunQueue is how long threads that could run waited for a CPU. By schedstat it has a count and a mean alone.
	RunQueue    Spread        `json:"run_queue"`
	PageFaults  int64         `json:"page_faults"`
	MajorFaults int64         `json:"major_faults"` // those that waited for a disk; always from rusage
	UserCPU     time.Duration `json:"user_cpu_ns"`  // rusage, as is the next
	SystemCPU   time.Duration `json:"system_cpu_ns"`
}

// A Spread sums durations up. P50 ≤ P99 ≤ Max. The quantiles are those of a histogram, off by no more than the width of its
// buckets.
type Spread struct {
	Count int64         `json:"count"`
	Mean  time.Duration `json:"mean_ns"`
	P50   time.Duration `json:"p50_ns"`
	P99   time.Duration `json:"p99_ns"`
	Max   time.Duration `json:"max_ns"`
}

// A KernelReport says for each figure of a KernelSample where it comes from.
type KernelReport struct {
	Retransmits Metric `json:"retransmits"`
	RTT         Metric `json:"rtt"`
	RunQueue    Metric `json:"run_queue"`
	PageFaults  Metric `json:"page_faults"`
}

// A Metric is the origin of a figure.
type Metric struct {
	Source Source `json:"source"`
	Scope  string `json:"scope,omitempty"` // whom it counts for: this process, its connections, the whole machine
	Why    string `json:"why,omitempty"`   // why Source is not a tracepoint
}

// A Source is a way to learn something from the kernel.
type Source string

const (
	SourceTracepoint Source = "tracepoint" // an eBPF program at a kernel tracepoint
	SourceTCPInfo    Source = "TCP_INFO"   // getsockopt on each of Options.Conns
	SourceSNMP       Source = "snmp"       // /proc/net/snmp
	SourceSchedstat  Source = "schedstat"  // /proc/self/task/*/schedstat
	SourceRusage     Source = "rusage"     // getrusage
	SourceNone       Source = "none"       // not known; the figure is zero
)

// Cost is what recording took itself: the time in which samples were read, Options.Load and Options.Conns included.
type Cost struct {
	Readings int64         `json:"readings"`
	Total    time.Duration `json:"total_ns"`
	Max      time.Duration `json:"max_ns"`
}
