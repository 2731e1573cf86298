package frame_test

import (
	"io"
	"math/rand/v2"
	"testing"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/arena"
	"github.com/millrace-io/millrace/frame"
	"github.com/millrace-io/millrace/internal/testkit/sourcetest"
)

// held is a frame that has not been released, with its expected bytes.
type held struct {
	slice arena.Slice
	want  string
}

// Any calls in any order, from an unsteady source, with frames released in any order, return the
// frames of the reference, and do not change the frames that are held.
func TestRandomOperations(t *testing.T) {
	for seed := range uint64(150) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		in := []byte(randomStream(rnd, 1+rnd.IntN(40)))
		switch rnd.IntN(4) {
		case 0:
			in = in[:rnd.IntN(len(in))]
		case 1:
			in[rnd.IntN(len(in))] ^= 1 << rnd.IntN(8)
		}
		l := limits{most: 1 << (14 + rnd.IntN(6)), kind: map[uint32]int{}}
		for kind := range uint32(rnd.IntN(10)) {
			l.kind[kind] = 1 << (8 + rnd.IntN(12))
		}
		checkRandomly(t, string(in), rnd, l)
	}
}

// checkRandomly compares the results of random calls with the reference.
func checkRandomly(t *testing.T, in string, rnd *rand.Rand, l limits) {
	t.Helper()
	want, wantErr := slowParse(in, l)
	blocks := millrace.NewPool()
	r := blocks.NewReader(&sourcetest.Unsteady{Rest: in, Rand: rnd}, 16<<rnd.IntN(9))
	got, err := play(t, rnd, frame.NewDecoder(r, record{}, l.options()...))
	sameResult(t, "random operations", got, err, want, wantErr)
	r.Release()
	if n := blocks.Stats().InUse; n != 0 {
		t.Fatalf("%d bytes in use after Release", n)
	}
}

// play calls d until the stream ends.
func play(t *testing.T, rnd *rand.Rand, d *frame.Decoder) (frames []slowFrame, err error) {
	buffers := []arena.Buffer{
		new(arena.Heap),
		arena.NewPool(rnd.IntN(1 << 17)),
		arena.NewPool(rnd.IntN(1<<17), arena.NoHeap()),
		arena.NewPool(rnd.IntN(1000), arena.NoHeap(), arena.Slots(64)),
	}
	var live []held
	release := func(i int) {
		if got := string(live[i].slice.Bytes()); got != live[i].want {
			t.Fatal("a frame that is held has changed")
		}
		live[i].slice.Release()
		live = append(live[:i], live[i+1:]...)
	}
	for {
		var f slowFrame
		if i := rnd.IntN(len(buffers) + 1); i == len(buffers) {
			f, err = byReference(d)
		} else {
			var s arena.Slice
			if s, f.Header, err = d.NextInto(buffers[i]); err == nil {
				f.raw = string(s.Bytes())
				live = append(live, held{s, f.raw})
			}
			if buffers[i].Len() > 0 {
				t.Fatalf("%d bytes left in the buffer after %v", buffers[i].Len(), err)
			}
		}
		switch err {
		case nil:
			frames = append(frames, f)
		case sourcetest.ErrUnsteady, arena.ErrFull, io.ErrNoProgress:
		default:
			for len(live) > 0 {
				release(0)
			}
			for _, buf := range buffers {
				if !buf.Droppable() {
					t.Fatal("a slot is taken after all have been released")
				}
			}
			return frames, err
		}
		for len(live) > 0 && rnd.IntN(2) == 0 {
			release(rnd.IntN(len(live)))
		}
	}
}
