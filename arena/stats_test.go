package arena_test

import (
	"testing"

	"github.com/millrace-io/millrace/arena"
)

func TestModeString(t *testing.T) {
	for mode, want := range map[arena.Mode]string{arena.Back: "back", arena.Front: "front", arena.Alloc: "alloc"} {
		if got := mode.String(); got != want {
			t.Errorf("Mode %d is %q, want %q", mode, got, want)
		}
	}
}

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
	want.Modes[arena.Back] = arena.Count{Frames: 1, Bytes: 30}
	want.SlotsInUse = 1
	wantStats(t, "and taken", pool, want)

	pool.Take()
	pool.Writable(5)
	pool.Truncate(0)
	pool.Take()
	wantStats(t, "empty frames do not count", pool, want)

	second := take(pool, 60)[0]
	want.Modes[arena.Back] = arena.Count{Frames: 2, Bytes: 90}
	want.SlotsInUse, want.LongestHeld = 2, 1
	wantStats(t, "the first is held while another is taken", pool, want)

	first.Release()
	want.SlotsInUse, want.LongestHeld = 1, 0
	wantStats(t, "the second is the newest", pool, want)

	front := take(pool, 30)[0]
	want.Modes[arena.Front] = arena.Count{Frames: 1, Bytes: 30}
	want.SlotsInUse, want.LongestHeld = 2, 1
	wantStats(t, "one in front", pool, want)

	alloc := take(pool, 50)[0]
	want.Modes[arena.Alloc] = arena.Count{Frames: 1, Bytes: 50}
	want.LongestHeld = 2
	wantStats(t, "one on the heap, which has no slot", pool, want)

	pool.Writable(10)
	pool.Writable(10)
	spilled := pool.Take()
	want.Modes[arena.Alloc] = arena.Count{Frames: 2, Bytes: 70}
	want.Spills, want.LongestHeld = 1, 3
	wantStats(t, "one that was moved to the heap", pool, want)

	pool.Writable(10)
	pool.Writable(10)
	pool.Truncate(0)
	pool.Take()
	wantStats(t, "one that was moved, and is empty", pool, want)

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
	want.Modes[arena.Back] = arena.Count{Frames: 3, Bytes: 190}
	want.SlotsInUse = 1
	wantStats(t, "back again", pool, want)
	last.Release()
}

// What is refused does not count.
func TestStatsOfRefusedFrames(t *testing.T) {
	pool := arena.NewPool(100, arena.HeapFallback(false), arena.Slots(64))
	held := take(pool, 95)[0]
	want := arena.Stats{Slots: 64, SlotsInUse: 1}
	want.Modes[arena.Back] = arena.Count{Frames: 1, Bytes: 95}
	for range 3 {
		if pool.Writable(6) != nil {
			t.Fatal("room for 6 bytes of 5")
		}
		if n, err := pool.Write(make([]byte, 6)); n != 0 || err != arena.ErrFull {
			t.Errorf("Write = %d, %v", n, err)
		}
		if n, err := pool.Write(nil); n != 0 || err != nil {
			t.Errorf("Write of nothing = %d, %v", n, err)
		}
	}
	wantStats(t, "refused", pool, want)
	held.Release()
}
