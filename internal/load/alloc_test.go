//go:build !race && !invariants

package load

import (
	"testing"
	"unsafe"
)

func TestTagsAndQuestionsAllocateNothing(t *testing.T) {
	m, v := metered()
	var a Arrival
	late := to(1)
	sub := &arrivals{}
	if n := testing.AllocsPerRun(100, func() {
		sub.late = late
		if err := sub.Next(&a); err != nil {
			t.Fatal(err)
		}
		v.arrive(a.At)
		found, _ := findMarker(a.Kind, a.Head)
		v.number(found, &a)
		if got := m.Interval(); got.Timed != 1 {
			t.Fatalf("%+v", got)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// What a Meter promises of memory.
func TestSizeOfAMeter(t *testing.T) {
	if n := unsafe.Sizeof(Meter{}); n > 8<<10 {
		t.Errorf("a Meter takes %d bytes", n)
	}
}
