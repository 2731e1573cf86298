package observe

import (
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"
)

const (
	// DefaultInterval resolves a garbage collection or a burst of retransmissions, and leaves a sample enough operations
	// for a p99.
	DefaultInterval = 200 * time.Millisecond

	// MinInterval keeps what a reading costs, less than a millisecond, well below the interval.
	MinInterval = 10 * time.Millisecond

	// MaxConns bounds how many connections are asked for TCP_INFO in a reading, with two system calls each. The round trips
	// of some hundred tell what those of thousands would; of retransmissions a note says that they are of the first alone.
	MaxConns = 256

	// MaxPorts bounds the comparisons that a program makes in the kernel for each segment of the machine.
	MaxPorts = 8

	// MaxSamples bounds a Timeline's memory to about 1.5 MB whatever the load's length: 13 minutes at DefaultInterval.
	// Then neighbours are merged, and the interval is doubled.
	MaxSamples = 4096
)

// A KernelSource says how the kernel layer is looked at.
type KernelSource int

const (
	KernelAuto        KernelSource = iota // by tracepoints what can be, by files and system calls the rest
	KernelTracepoints                     // by tracepoints, or Start fails
	KernelProc                            // by files and system calls alone
	KernelNone                            // not at all
)

// Options say what a Recorder looks at. The zero value records the runtime and the kernel every DefaultInterval.
type Options struct {
	Interval time.Duration // DefaultInterval if 0, MinInterval at least

	// Load returns what happened since it was called last. It is called by one goroutine at a time: once in Start, where
	// what it returns is thrown away, and then at the end of each interval, Stop's with them. [Latencies.Load] is one. Nil:
	// no load layer.
	Load func() Load

	// Conns returns connections of this process; the first MaxConns of them are looked at, and may be closed meanwhile.
	// It is called as Load is, but only if tracepoints don't give what TCP_INFO would. The Recorder borrows what it
	// returns until the next call. Nil: none.
	Conns func() []syscall.Conn

	// Ports have tracepoints count only connections from or to one of them, in whatever process: the ports that a load's
	// servers listen on. At most MaxPorts. Empty: all connections of the machine. Of the other sources, TCP_INFO is of
	// Conns whatever their ports, and the counters of /proc/net/snmp don't know ports.
	Ports []uint16

	// Profiles is the directory, made if there is none, that gets cpu.pprof and heap.pprof. Empty: no profiles.
	Profiles string

	Kernel KernelSource
}

// A Load is what a load did in an interval.
type Load struct {
	Operations, Bytes, Errors int64
	P50, P95, P99             time.Duration // of the operations' latencies
}

// The layers below the load. Both read what happened since they were read last.
type (
	runtimeLayer interface {
		read(*RuntimeSample)
	}
	kernelLayer interface {
		read(*KernelSample)
		report() KernelReport
		notes() []string // what readings have brought up
		close() error    // after the last read
	}
)

// A Recorder samples a load every interval until Stop, which has to be called.
type Recorder struct {
	load     func() Load
	runtime  runtimeLayer
	kernel   kernelLayer
	profiles profiles

	quit chan struct{}
	done chan struct{}
	stop sync.Once
	err  error // Stop's

	// The sampling goroutine's until done is closed, then Stop's.
	timeline Timeline
	samples  series
	now      Sample // the one that is being read; here, since a local one would be allocated each time
}

// Start begins to record. If it fails, nothing is left running or attached.
func Start(o Options) (*Recorder, error) {
	if o.Interval == 0 {
		o.Interval = DefaultInterval
	}
	if o.Interval < MinInterval {
		return nil, fmt.Errorf("observe: an interval of %v is below %v", o.Interval, MinInterval)
	}
	if len(o.Ports) > MaxPorts {
		return nil, fmt.Errorf("observe: %d ports are more than %d", len(o.Ports), MaxPorts)
	}
	if o.Kernel < KernelAuto || o.Kernel > KernelNone {
		return nil, fmt.Errorf("observe: no kernel source %d", o.Kernel)
	}
	kernel, err := openKernel(thisSystem, o)
	if err != nil {
		return nil, fmt.Errorf("observe: %w", err)
	}
	profiles, err := startProfiles(o.Profiles)
	if err != nil {
		return nil, fmt.Errorf("observe: %w", errors.Join(err, kernel.close()))
	}
	return start(o, newGoRuntime(runtimeMetrics), kernel, profiles), nil
}

// start takes ownership of the kernel layer and of the profiles.
func start(o Options, runtime runtimeLayer, kernel kernelLayer, profiles profiles) *Recorder {
	r := &Recorder{
		load: o.Load, runtime: runtime, kernel: kernel, profiles: profiles,
		quit: make(chan struct{}), done: make(chan struct{}),
	}
	r.sample() // what was before the load is not the load's
	r.now, r.timeline.Cost = Sample{}, Cost{}
	r.timeline.Began = time.Now()
	r.timeline.Interval = o.Interval
	go r.run()
	return r
}

func (r *Recorder) run() {
	defer close(r.done)
	ticker := time.NewTicker(r.timeline.Interval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			if r.samples.add(r.sample()) {
				r.timeline.Interval *= 2
				ticker.Reset(r.timeline.Interval)
			}
		case <-r.quit:
			r.sampleRest()
			return
		}
	}
}

// sampleRest takes the sample of an interval that is not full. A rate over next to no time would stick out of every plot, so
// a short rest goes to the sample before it.
func (r *Recorder) sampleRest() {
	rest := r.sample()
	if rest.Length < r.timeline.Interval/2 && len(r.samples.samples) > 0 {
		r.samples.extend(rest)
		return
	}
	if r.samples.add(rest) {
		r.timeline.Interval *= 2
	}
}

// sample reads the layers, one right after the other, the load last: it may take long.
func (r *Recorder) sample() Sample {
	at := time.Since(r.timeline.Began)
	r.now = Sample{At: at, Length: at - r.now.At}
	r.kernel.read(&r.now.Kernel)
	r.runtime.read(&r.now.Runtime)
	if r.load != nil {
		r.now.Load = loadSample(r.load(), r.now.Length)
	}
	took := time.Since(r.timeline.Began) - at
	cost := &r.timeline.Cost
	cost.Readings++
	cost.Total += took
	cost.Max = max(cost.Max, took)
	return r.now
}

// Stop takes a last sample, detaches everything and writes the profiles. The Timeline is complete even if there is an
// error: of a profile, or of something that could not be detached. A second call returns what the first did. Any
// goroutine may call it except the one that calls Options.Load and Options.Conns, for which Stop waits.
func (r *Recorder) Stop() (*Timeline, error) {
	r.stop.Do(func() {
		close(r.quit)
		<-r.done
		t := &r.timeline
		t.Samples = r.samples.samples
		t.Kernel = r.kernel.report()
		t.Notes = r.kernel.notes()
		var profiled error
		t.Profiles, profiled = r.profiles.stop() // first, since detaching is none of the load's work
		if err := errors.Join(profiled, r.kernel.close()); err != nil {
			r.err = fmt.Errorf("observe: %w", err)
		}
	})
	return &r.timeline, r.err
}
