//go:build !race && !invariants

package observe

import (
	"testing"
	"time"
	"unsafe"
)

func TestReadingTheRuntimeAllocatesNothing(t *testing.T) {
	r := newGoRuntime(runtimeMetrics)
	var s RuntimeSample
	if n := testing.AllocsPerRun(100, func() { r.read(&s) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestASampleAllocatesNothing(t *testing.T) {
	var l Latencies
	r := &Recorder{load: l.Load, runtime: newGoRuntime(runtimeMetrics), kernel: &fakeKernel{}}
	if n := testing.AllocsPerRun(100, func() { l.Record(time.Second, 1); r.sample() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestLatenciesAllocateNothing(t *testing.T) {
	var l Latencies
	if n := testing.AllocsPerRun(100, func() { l.Record(time.Second, 1); l.Fail(); l.Load() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// What MaxSamples and Latencies promise of memory.
func TestSizes(t *testing.T) {
	if n := MaxSamples * unsafe.Sizeof(Sample{}); n > 3<<19 {
		t.Errorf("all samples of a timeline take %d bytes", n)
	}
	if n := unsafe.Sizeof(Latencies{}); n > 10<<10 {
		t.Errorf("Latencies take %d bytes", n)
	}
}
