package observe

import (
	"math"
	"runtime/metrics"
	"time"
)

// What the runtime layer reads: the index of each in goRuntime.samples, and its name.
const (
	rtCycles = iota
	rtPauses
	rtGCCPU
	rtHeap
	rtTotal
	rtGoroutines
	rtScheduling
	rtAllocBytes
	rtAllocObjects
	rtCount
)

var runtimeMetrics = [rtCount]string{
	rtCycles:       "/gc/cycles/total:gc-cycles",
	rtPauses:       "/sched/pauses/total/gc:seconds",
	rtGCCPU:        "/cpu/classes/gc/total:cpu-seconds",
	rtHeap:         "/memory/classes/heap/objects:bytes",
	rtTotal:        "/memory/classes/total:bytes",
	rtGoroutines:   "/sched/goroutines:goroutines",
	rtScheduling:   "/sched/latencies:seconds",
	rtAllocBytes:   "/gc/heap/allocs:bytes",
	rtAllocObjects: "/gc/heap/allocs:objects",
}

// A goRuntime reads the runtime layer. It keeps its samples: the runtime then reads histograms into the memory of the time
// before, and a reading allocates nothing.
type goRuntime struct {
	samples            []metrics.Sample
	pauses, scheduling growing

	cycles, allocBytes, allocObjects uint64 // at the last reading
	gcCPU                            float64
}

// newGoRuntime takes the first reading, from which the next one's differences are.
func newGoRuntime(names [rtCount]string) *goRuntime {
	r := &goRuntime{samples: make([]metrics.Sample, rtCount)}
	for i, name := range names {
		r.samples[i].Name = name
	}
	metrics.Read(r.samples)
	r.pauses = newGrowing(middles(r.histogram(rtPauses)))
	r.scheduling = newGrowing(middles(r.histogram(rtScheduling)))
	var first RuntimeSample
	r.read(&first)
	return r
}

func (r *goRuntime) read(s *RuntimeSample) {
	metrics.Read(r.samples)
	gcCPU := r.float(rtGCCPU)
	*s = RuntimeSample{
		GCs:              since(&r.cycles, r.number(rtCycles)),
		GCPauses:         r.spread(&r.pauses, rtPauses),
		GCCPU:            time.Duration((gcCPU - r.gcCPU) * float64(time.Second)),
		HeapBytes:        int64(r.number(rtHeap)),
		TotalBytes:       int64(r.number(rtTotal)),
		Goroutines:       int64(r.number(rtGoroutines)),
		Scheduling:       r.spread(&r.scheduling, rtScheduling),
		AllocatedBytes:   since(&r.allocBytes, r.number(rtAllocBytes)),
		AllocatedObjects: since(&r.allocObjects, r.number(rtAllocObjects)),
	}
	r.gcCPU = gcCPU
}

// A metric that this version of Go does not have is zero. The runtime may drop one at any release.

func (r *goRuntime) number(i int) uint64 {
	if v := r.samples[i].Value; v.Kind() == metrics.KindUint64 {
		return v.Uint64()
	}
	return 0
}

func (r *goRuntime) float(i int) float64 {
	if v := r.samples[i].Value; v.Kind() == metrics.KindFloat64 {
		return v.Float64()
	}
	return 0
}

func (r *goRuntime) histogram(i int) *metrics.Float64Histogram {
	if v := r.samples[i].Value; v.Kind() == metrics.KindFloat64Histogram {
		return v.Float64Histogram()
	}
	return &metrics.Float64Histogram{}
}

func (r *goRuntime) spread(g *growing, i int) Spread { return g.spread(r.histogram(i).Counts) }

// middles returns the middle of each bucket of a histogram in seconds. The first and the last may have no end; their other
// one stands for them.
func middles(h *metrics.Float64Histogram) []time.Duration {
	middle := make([]time.Duration, len(h.Counts))
	for i := range middle {
		low, high := h.Buckets[i], h.Buckets[i+1]
		if math.IsInf(low, -1) {
			low = high
		}
		if math.IsInf(high, 1) {
			high = low
		}
		middle[i] = time.Duration((low + high) / 2 * float64(time.Second))
	}
	return middle
}
