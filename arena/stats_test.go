package arena_test

import (
	"testing"

	"github.com/millrace-io/millrace/arena"
)

type modeStats = struct{ Frames, Bytes uint64 }

func wantStats(t *testing.T, what string, pool *arena.Pool, want arena.Stats) {
	t.Helper()
	if got := pool.Stats(); got != want {
		t.Errorf("%s: %+v, want %+v", what, got, want)
	}
}

// Every field, one event after the other.
func TestStats(t *testing.T) {
	pool := arena.NewPool(100)
	want := arena.Stats{Slots: 8}
	wantStats(t, "new", pool, want)

	pool.Writable(30)
	wantStats(t, "a frame is written", pool, want)
	first := pool.Take()
	want.Modes[arena.Back] = modeStats{Frames: 1, Bytes: 30}
	want.SlotsInUse = 1
	wantStats(t, "and taken", pool, want)

	pool.Take()
	pool.Writable(5)
	pool.Truncate(0)
	pool.Take()
	wantStats(t, "empty frames do not count", pool, want)

	second := take(pool, 60)[0]
	want.Modes[arena.Back] = modeStats{Frames: 2, Bytes: 90}
	want.SlotsInUse, want.LongestHeld = 2, 1
	wantStats(t, "the first is held while another is taken", pool, want)

	first.Release()
	want.SlotsInUse, want.LongestHeld = 1, 0
	wantStats(t, "the second is the newest", pool, want)

	front := take(pool, 30)[0]
	want.Modes[arena.Front] = modeStats{Frames: 1, Bytes: 30}
	want.SlotsInUse, want.LongestHeld = 2, 1
	wantStats(t, "one in front", pool, want)

	alloc := take(pool, 50)[0]
	want.Modes[arena.Alloc] = modeStats{Frames: 1, Bytes: 50}
	want.LongestHeld = 2
	wantStats(t, "one on the heap, which has no slot", pool, want)

	pool.Writable(10)
	pool.Writable(10)
	want.Spills = 1
	wantStats(t, "one that is moved to the heap", pool, want)
	spilled := pool.Take()
	want.Modes[arena.Alloc] = modeStats{Frames: 2, Bytes: 70}
	want.LongestHeld = 3
	wantStats(t, "one that was moved to the heap", pool, want)

	second.Promote()
	want.SlotsInUse, want.LongestHeld = 1, 2
	wantStats(t, "Promote", pool, want)

	for _, s := range []arena.Slice{second, front, alloc, spilled} {
		s.Release()
	}
	want.SlotsInUse, want.LongestHeld = 0, 0
	wantStats(t, "all are released", pool, want)

	pool.Writable(100)
	wantStats(t, "where one was before, another is written", pool, want)
	last := pool.Take()
	want.Modes[arena.Back] = modeStats{Frames: 3, Bytes: 190}
	want.SlotsInUse = 1
	wantStats(t, "back again", pool, want)
	last.Release()
}
