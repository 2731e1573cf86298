package observe

import (
	"fmt"
	"math"
	"runtime"
	"runtime/metrics"
	"slices"
	"testing"
	"time"
)

// Every name is one that this version of Go has.
func TestRuntimeMetricsExist(t *testing.T) {
	var known []string
	for _, d := range metrics.All() {
		known = append(known, d.Name)
	}
	for _, name := range runtimeMetrics {
		if !slices.Contains(known, name) {
			t.Errorf("no metric %s", name)
		}
	}
}

var kept []byte

func TestGoRuntime(t *testing.T) {
	r := newGoRuntime(runtimeMetrics)
	var s RuntimeSample
	r.read(&s)
	kept = make([]byte, 8<<20)
	runtime.GC()
	runtime.GC()
	leave := make(chan struct{})
	for range 50 {
		go func() { <-leave }()
	}
	r.read(&s)
	close(leave)
	if s.GCs < 2 || s.GCPauses.Count < 2 || s.GCPauses.Max <= 0 || s.GCPauses.P50 > s.GCPauses.Max || s.GCCPU <= 0 {
		t.Errorf("two collections: %+v", s)
	}
	if s.AllocatedBytes < 8<<20 || s.AllocatedObjects < 51 || s.HeapBytes < 8<<20 || s.TotalBytes < s.HeapBytes {
		t.Errorf("8 MiB were allocated: %+v", s)
	}
	if s.Goroutines < 50 {
		t.Errorf("50 goroutines: %+v", s)
	}
	kept = nil
	runtime.Gosched()
	r.read(&s)
	if s.AllocatedBytes >= 8<<20 {
		t.Errorf("the reading after it has it again: %+v", s)
	}
}

// A metric that a later Go no longer has is zero.
func TestGoRuntimeWithoutAMetric(t *testing.T) {
	var names [rtCount]string
	for i := range names {
		names[i] = fmt.Sprintf("/no/such:metric%d", i)
	}
	r := newGoRuntime(names)
	var s RuntimeSample
	r.read(&s)
	if s != (RuntimeSample{}) {
		t.Errorf("%+v", s)
	}
}

func TestMiddles(t *testing.T) {
	h := &metrics.Float64Histogram{
		Counts:  []uint64{0, 0, 0},
		Buckets: []float64{math.Inf(-1), 1, 3, math.Inf(1)},
	}
	want := []time.Duration{time.Second, 2 * time.Second, 3 * time.Second}
	if got := middles(h); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
