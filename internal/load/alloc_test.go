//go:build !race && !invariants

package load

import (
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/testkit/alloctest"
)

func TestTagsAllocateNothing(t *testing.T) {
	v := newWatching()
	v.load.measuring.Store(true)
	var a Arrival
	late := []time.Duration{time.Second}
	sub := &arrivals{}
	if n := alloctest.Count(0, func() {
		for range 100 {
			sub.late = late
			if err := sub.Next(&a); err != nil {
				t.Fatal(err)
			}
			v.measureGap(a.At)
			found, _ := findMarker(a.Kind, a.Head)
			v.checkSeq(found, &a)
		}
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

func TestSynthDoesNotAllocate(t *testing.T) {
	s := NewSynth(0, 2_150_000, time.Second)
	now := time.Now()
	if n := alloctest.Count(0, func() {
		for range 500 {
			s.Next(now)
		}
	}); n != 0 {
		t.Errorf("%v allocations for 500 tags", n)
	}
}
