//go:build !race && !invariants

package load

import (
	"testing"
	"time"
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

func TestSynthDoesNotAllocate(t *testing.T) {
	s := NewSynth(0, 2_150_000, time.Second)
	now := time.Now()
	if n := testing.AllocsPerRun(500, func() { s.Next(now) }); n != 0 {
		t.Errorf("%v allocations a tag", n)
	}
}

// What a Meter promises of memory.
func TestSizeOfAMeter(t *testing.T) {
	if n := unsafe.Sizeof(Meter{}); n > 8<<10 {
		t.Errorf("a Meter takes %d bytes", n)
	}
}
