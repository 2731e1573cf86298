package arena_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/arena"
)

// traced is how long the frames are whose slots are traced.
const traced = 10

// A tracer knows frames by a letter each, and shows which slots they are in.
type tracer struct {
	t     testing.TB
	pool  *arena.Pool
	slots int
	held  map[byte]*arena.Slice
}

func newTracer(t testing.TB, capacity int) *tracer {
	return &tracer{t, arena.NewPool(capacity), 8, map[byte]*arena.Slice{}}
}

// length is traced, and twice that for capital letters.
func length(c byte) int {
	if 'A' <= c && c <= 'Z' {
		return 2 * traced
	}
	return traced
}

// do takes a frame for each letter, or releases those behind a minus sign.
func (tr *tracer) do(what string) {
	tr.t.Helper()
	letters, release := strings.CutPrefix(what, "-")
	for _, c := range []byte(letters) {
		if release {
			tr.held[c].Release()
			delete(tr.held, c)
		} else {
			copy(tr.pool.Writable(length(c)), strings.Repeat(string(c), length(c)))
			s := tr.pool.Take()
			tr.held[c] = &s
		}
		if err := arena.Broken(tr.pool); err != nil {
			tr.t.Errorf("%s: %v", what, err)
		}
	}
	for c, s := range tr.held {
		if want := strings.Repeat(string(c), length(c)); string(s.Bytes()) != want {
			tr.t.Errorf("%s: %c reads %q", what, c, s.Bytes())
		}
	}
}

// String shows the slots, '-' for each that is free, and the mode of the last frame.
func (tr *tracer) String() string {
	slots := []byte(strings.Repeat("-", tr.slots))
	for c, s := range tr.held {
		if i, _ := arena.SlotOf(tr.pool, *s); i >= 0 {
			slots[i] = c
		}
	}
	return fmt.Sprintf("%s %v", slots, tr.pool.Mode())
}

// A traceStep is what is done, and the slots and the mode afterwards.
type traceStep struct{ do, want string }

// fillUp takes as many frames as there are slots.
var fillUp = []traceStep{
	{"", "-------- back"},
	{"1", "1------- back"},
	{"2", "12------ back"},
	{"3", "123----- back"},
	{"4", "1234---- back"},
	{"5", "12345--- back"},
	{"6", "123456-- back"},
	{"7", "1234567- back"},
	{"8", "12345678 back"},
}

var traces = []struct {
	name     string
	capacity int
	steps    []traceStep
}{
	{"exhaustion of the slots", 8 * traced, append(fillUp[:9:9],
		traceStep{"9", "12345678 alloc"},
		traceStep{"a", "12345678 alloc"},
		traceStep{"b", "12345678 alloc"},
	)},
	{"reset, and back mode again", 8 * traced, append(fillUp[:9:9],
		traceStep{"-12345678", "-------- back"},
		traceStep{"9", "9------- back"},
		traceStep{"a", "9a------ back"},
	)},
	{"from back to front and to back again", 8 * traced, append(fillUp[:9:9],
		traceStep{"-12", "--345678 back"},
		traceStep{"9", "-9345678 front"},
		traceStep{"a", "a9345678 front"},
		traceStep{"-78", "a93456-- front"},
		traceStep{"b", "a93456b- back"},
		traceStep{"c", "a93456bc back"},
	)},
	{"exhaustion of the memory", 4*traced + traced - 1, []traceStep{
		{"1234", "1234---- back"},
		{"5", "1234---- alloc"},
		{"6", "1234---- alloc"},
		{"-2", "1-34---- alloc"},
		{"7", "1734---- front"},
		{"8", "1734---- alloc"},
		{"-134567", "-------- alloc"},
		{"9", "9------- back"},
	}},
	{"released in the middle", 8 * traced, append(fillUp[:9:9],
		traceStep{"-35", "12-4-678 back"},
		traceStep{"x", "12x4-678 front"},
		traceStep{"y", "12x4y678 front"},
		traceStep{"z", "12x4y678 alloc"},
	)},
	{"back out of alloc mode, oldest first", 8 * traced, append(fillUp[:9:9],
		traceStep{"9", "12345678 alloc"},
		traceStep{"-1", "-2345678 alloc"},
		traceStep{"a", "a2345678 front"},
		traceStep{"b", "a2345678 alloc"},
		traceStep{"-2", "a-345678 alloc"},
		traceStep{"c", "ac345678 front"},
		traceStep{"-3", "ac-45678 front"},
		traceStep{"d", "acd45678 front"},
	)},
	{"after all are released from alloc mode", 8 * traced, append(fillUp[:9:9],
		traceStep{"9", "12345678 alloc"},
		traceStep{"-123456789", "-------- alloc"},
		traceStep{"a", "a------- back"},
	)},
	{"after all are released from front mode", 8 * traced, append(fillUp[:9:9],
		traceStep{"-12", "--345678 back"},
		traceStep{"9", "-9345678 front"},
		traceStep{"-9", "--345678 front"},
		traceStep{"-345678", "-------- front"},
		traceStep{"a", "-a------ back"},
		traceStep{"b", "ba------ back"},
	)},
	{"one after the other", 8 * traced, []traceStep{
		{"1", "1------- back"},
		{"-1", "-------- back"},
		{"2", "2------- back"},
		{"-2", "-------- back"},
		{"3", "3------- back"},
		{"4", "34------ back"},
		{"-4", "3------- back"},
		{"5", "35------ back"},
	}},
	{"the front is free, and the back is not used up", 8 * traced, []traceStep{
		{"12345", "12345--- back"},
		{"-12", "--345--- back"},
		{"6", "--3456-- back"},
		{"-4", "--3-56-- back"},
		{"789", "-93-5678 front"},
	}},
	{"the front is free, and too small", 8 * traced, append(fillUp[:9:9],
		traceStep{"-1", "-2345678 back"},
		traceStep{"A", "-2345678 alloc"},
		traceStep{"-78", "-23456-- alloc"},
		traceStep{"B", "-23456B- back"},
		traceStep{"9", "923456B- front"},
	)},
	{"newest first", 8 * traced, append(fillUp[:9:9],
		traceStep{"-8", "1234567- back"},
		traceStep{"9", "12345679 back"},
		traceStep{"-97", "123456-- back"},
		traceStep{"a", "123456a- back"},
		traceStep{"b", "123456ab back"},
	)},
}

func TestTrace(t *testing.T) {
	for _, test := range traces {
		t.Run(test.name, func(t *testing.T) {
			tr := newTracer(t, test.capacity)
			for i, step := range test.steps {
				tr.do(step.do)
				if got := tr.String(); got != step.want {
					t.Fatalf("step %d, %q: %s, want %s", i, step.do, got, step.want)
				}
			}
		})
	}
}

// One of eight slots comes back, and its place is too small for the frame: but the slot does, behind the last frame.
func TestASlotFromTheMiddleServesAFrameAtTheEnd(t *testing.T) {
	for _, fallback := range []bool{true, false} {
		pool := arena.NewPool(1000, arena.HeapFallback(fallback))
		var held []arena.Slice
		for range 8 {
			pool.Writable(10)
			held = append(held, pool.Take())
		}
		held[2].Release()
		if pool.Writable(50) == nil {
			t.Fatal("no room for 50 bytes, of 920 that are free")
		}
		if pool.Mode() != arena.Back {
			t.Errorf("mode %v, want back: 920 bytes and a slot are free", pool.Mode())
		}
		s := pool.Take()
		if number, at := arena.SlotOf(pool, s); number != 2 || at != 80 {
			t.Errorf("slot %d at %d, want slot 2 at 80", number, at)
		}
	}
}

// With a few slices held and released oldest first, no frame ever leaves the memory.
func TestOldestFirstNeverSticks(t *testing.T) {
	for live := 1; live <= 8; live++ {
		for _, spare := range []int{0, 1, traced - 1, traced, 20 * traced} {
			pool := arena.NewPool(live*traced + spare)
			var held []arena.Slice
			for i := range 2000 {
				if len(held) == live {
					held[0].Release()
					held = held[1:]
				}
				pool.Writable(traced)
				if pool.Mode() == arena.Alloc {
					t.Fatalf("%d live, %d bytes to spare: frame %d is on the heap", live, spare, i)
				}
				held = append(held, pool.Take())
			}
		}
	}
}
