package server

import (
	"testing"
	"time"
)

// A deadline that was cut stays so, and after its end nobody touches it.
func TestDeadline(t *testing.T) {
	var set []time.Time
	d := deadline{set: func(to time.Time) error { set = append(set, to); return nil }}
	later := time.Unix(1<<40, 0)
	last := func(what string, calls int, want time.Time) {
		t.Helper()
		if len(set) != calls || !set[calls-1].Equal(want) {
			t.Errorf("%s: set to %v, want %d calls and %v", what, set, calls, want)
		}
	}
	d.move(later)
	last("moved", 1, later)
	d.cut()
	last("cut", 2, pastDeadline)
	d.move(later)
	last("moved after the cut", 2, pastDeadline)
	d.retire()
	last("retired", 3, time.Time{})
	d.move(later)
	d.cut()
	d.retire()
	last("after that", 3, time.Time{})
}
