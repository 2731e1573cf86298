//go:build !race && !invariants

package observe

import "testing"

func TestReadingATracerAllocatesNothing(t *testing.T) {
	for _, enable := range []func(*tracer) error{
		(*tracer).enableRetransmits, (*tracer).enableRTT, (*tracer).enableRunQueue, (*tracer).enablePageFaults,
	} {
		tr := trace(t, nil, enable)
		var s KernelSample
		if n := testing.AllocsPerRun(100, func() { tr.read(&s) }); n != 0 {
			t.Errorf("%v allocations", n)
		}
	}
}
