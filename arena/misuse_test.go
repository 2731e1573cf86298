package arena_test

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-io/millrace/arena"
)

// panicText returns the text of f's panic, or "" if f does not panic.
func panicText(f func()) (text string) {
	defer func() {
		if e := recover(); e != nil {
			text = fmt.Sprint(e)
		}
	}()
	f()
	return ""
}

func wantPanic(t *testing.T, what, want string, f func()) {
	t.Helper()
	if got := panicText(f); got != want {
		t.Errorf("%s: panic %q, want %q", what, got, want)
	}
}

const (
	usedLate      = "arena: Slice used after Release"
	releasedTwice = "arena: Slice released twice"
)

// sliceVerbs are the operations on a Slice, and their panics if a copy of it has been released.
var sliceVerbs = []struct {
	name string
	do   func(s *arena.Slice)
	want string
}{
	{"Bytes", func(s *arena.Slice) { s.Bytes() }, usedLate},
	{"Len", func(s *arena.Slice) { s.Len() }, usedLate},
	{"Promote", func(s *arena.Slice) { s.Promote() }, usedLate},
	{"Release", func(s *arena.Slice) { s.Release() }, releasedTwice},
}

// frameSources are the places where a Slice can be.
var frameSources = []struct {
	name string
	make func() arena.Buffer
}{
	{"memory", func() arena.Buffer { return arena.NewPool(1000) }},
	{"memory, not yet due", func() arena.Buffer {
		return arena.NewPool(1000, arena.PromoteAfter(time.Hour))
	}},
	{"alloc mode", func() arena.Buffer { return arena.NewPool(0) }},
	{"Heap", func() arena.Buffer { return new(arena.Heap) }},
}

func takeText(b arena.Buffer, text string) arena.Slice {
	copy(b.Writable(len(text)), text)
	return b.Take()
}

// Each verb is applied to a copy of a released Slice, before and after its memory has been used by
// the next frame, or moved.
func TestSliceMisuse(t *testing.T) {
	for _, source := range frameSources {
		for _, v := range sliceVerbs {
			for _, end := range []string{"released", "released and used again", "promoted"} {
				t.Run(fmt.Sprintf("%s/%s/%s", source.name, v.name, end), func(t *testing.T) {
					b := source.make()
					s := takeText(b, "released")
					copied := s
					if end == "promoted" && !s.Promote() {
						if string(copied.Bytes()) != "released" {
							t.Errorf("a copy reads %q after a Promote that had nothing to do",
								copied.Bytes())
						}
						s.Release()
						return
					}
					var next arena.Slice
					if end != "promoted" {
						s.Release()
					}
					if end == "released and used again" {
						next = takeText(b, "another's")
					}
					wantPanic(t, v.name, v.want, func() { v.do(&copied) })
					if p := string(s.Bytes()) + string(next.Bytes()); p != "" && p != "released" &&
						p != "another's" {
						t.Errorf("another owner reads %q", p)
					}
					s.Release()
					next.Release()
					if !b.Droppable() {
						t.Error("not Droppable")
					}
				})
			}
		}
	}
}

// The zero Slice, a released Slice, and the Slice of an empty frame are all empty.
func TestEmptySlices(t *testing.T) {
	pool := arena.NewPool(100)
	released := takeText(pool, "released")
	released.Release()
	pool.Writable(10)
	pool.Truncate(0)
	emptied := pool.Take()
	for what, s := range map[string]arena.Slice{
		"zero": {}, "released": released, "emptied": emptied, "no frame": pool.Take(),
	} {
		if s.Promote() || s.Len() != 0 || s.Bytes() != nil {
			t.Errorf("%s: %d bytes after Promote of an empty slice, want none", what, s.Len())
		}
		s.Release()
		s.Release()
	}
	if st := pool.Stats(); st.Modes[arena.Back].Frames != 1 || st.Modes[arena.Back].Bytes != 8 ||
		st.SlotsInUse != 0 {
		t.Errorf("%+v, want one frame of 8 bytes and no slot", st)
	}
}

func TestBufferMisuse(t *testing.T) {
	for _, source := range frameSources {
		b := source.make()
		for _, text := range []string{"", "a frame"} {
			b.Write([]byte(text))
			n := len(text)
			for _, i := range []int{-1, n + 1, math.MinInt, math.MaxInt} {
				wantPanic(t, "Truncate", fmt.Sprintf("arena: Truncate(%d) of a frame of %d bytes",
					i, n),
					func() { b.Truncate(i) })
				wantPanic(t, "SetStart", fmt.Sprintf("arena: SetStart(%d) in a frame of %d bytes",
					i, n),
					func() { b.SetStart(i) })
			}
			if got := b.Data(math.MaxInt); string(got) != text {
				t.Errorf("%s: the frame is %q, want %q", source.name, got, text)
			}
		}
		s := b.Take()
		s.Release()
	}
}

// Counts larger than any memory leave the frame unchanged. A Pool with NoHeap refuses them, and
// negative counts panic.
func TestWritableOutOfRange(t *testing.T) {
	noHeap := arena.NewPool(10, arena.NoHeap())
	for _, b := range []arena.Buffer{arena.NewPool(10), arena.NewPool(2), new(arena.Heap), noHeap} {
		for _, n := range []int{math.MaxInt, math.MaxInt - 2, -1, math.MinInt} {
			b.Truncate(0)
			b.Write([]byte("abc"))
			var p []byte
			text := panicText(func() { p = b.Writable(n) })
			want := fmt.Sprintf("arena: Writable(%d)", n)
			if refused := b == noHeap && n > 0; p != nil || refused != (text == "") || n < 0 &&
				text != want {
				t.Errorf("%T: Writable(%d) has %d bytes, panics with %q", b, n, len(p), text)
			}
			if b.Write([]byte("def")); string(b.Data(10)) != "abcdef" {
				t.Errorf("%T: after Writable(%d) the frame is %q", b, n, b.Data(10))
			}
			if pool, ok := b.(*arena.Pool); ok && arena.Broken(pool) != nil {
				t.Error(arena.Broken(pool))
			}
		}
	}
}

func TestNewPoolMisuse(t *testing.T) {
	outside := []int{-1, math.MinInt}
	if math.MaxInt > math.MaxUint32 {
		outside = append(outside, math.MaxInt)
	}
	for _, n := range outside {
		want := fmt.Sprintf("arena: NewPool(%d): capacity is from 0 to 4294967295 bytes", n)
		wantPanic(t, "NewPool", want, func() { arena.NewPool(n) })
	}
	for _, n := range []int{math.MinInt, -1, 0} {
		wantPanic(t, "Slots", fmt.Sprintf("arena: Slots(%d): at least 1", n),
			func() { arena.Slots(n) })
	}
	for _, n := range []int{1, 2, 8, 1000} {
		if st := arena.NewPool(100, arena.Slots(n)).Stats(); st.Slots != n {
			t.Errorf("Slots(%d): %d slots", n, st.Slots)
		}
	}
	wantPanic(t, "PromoteAfter", "arena: PromoteAfter(-1ns): at least 0",
		func() { arena.PromoteAfter(-1) })
	if pool := arena.NewPool(12345); pool.Stats().Slots != 8 || pool.Mode() != arena.Back {
		t.Errorf("NewPool(12345): %d slots, mode %v", pool.Stats().Slots, pool.Mode())
	}
}

// With -tags invariants, released memory is overwritten.
func TestReleasePoisons(t *testing.T) {
	if !arena.Invariants {
		t.Skip("only -tags invariants does")
	}
	for _, source := range frameSources {
		b := source.make()
		s := takeText(b, "released")
		kept := s.Bytes()
		s.Release()
		if want := bytes.Repeat([]byte{0xdb}, len(kept)); !bytes.Equal(kept, want) {
			t.Errorf("%s: %x, want %x", source.name, kept, want)
		}
	}
	pool := arena.NewPool(100)
	left, s, right := takeText(pool, "left"), takeText(pool, "promoted"), takeText(pool, "right")
	kept := s.Bytes()
	s.Promote()
	if strings.Contains(string(kept), "promoted") || string(left.Bytes()) != "left" ||
		string(right.Bytes()) != "right" {
		t.Errorf("after Promote: %q, its neighbours %q and %q", kept, left.Bytes(), right.Bytes())
	}
}

func TestPromoteAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := arena.NewPool(1000, arena.PromoteAfter(time.Second))
		s := takeText(pool, "frame")
		time.Sleep(time.Second - 1)
		if s.Promote() || pool.Stats().SlotsInUse != 1 {
			t.Error("promoted too early")
		}
		time.Sleep(time.Nanosecond)
		if !s.Promote() || pool.Stats().SlotsInUse != 0 || string(s.Bytes()) != "frame" {
			t.Errorf("not promoted when it was due: %q, %+v", s.Bytes(), pool.Stats())
		}
		time.Sleep(time.Hour)
		if s.Promote() {
			t.Error("promoted twice")
		}
		s.Release()

		// The same slot is used again, so its time starts again.
		s = takeText(pool, "another")
		if s.Promote() {
			t.Error("the next frame is due at once")
		}
		s.Release()
	})
}

// The sizes are those that comments and documentation state.
func TestSizes(t *testing.T) {
	if math.MaxInt < math.MaxInt64 {
		t.Skip("the sizes are those of 64-bit machines")
	}
	if arena.SliceSize != 16 || arena.SlotSize != 64 {
		t.Errorf("a Slice has %d bytes, and a slot %d, want 16 and 64", arena.SliceSize,
			arena.SlotSize)
	}
}
