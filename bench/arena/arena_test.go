package arena

import (
	"hash/fnv"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/bench/measure/benchtest"
)

func TestMain(m *testing.M) { benchtest.Main(m) }

func TestContendersDeliver(t *testing.T) {
	for _, c := range contenders {
		if err := c.check(); err != nil {
			t.Error(err)
		}
	}
}

// TestCheckSeesOtherBytes uses a contender that writes all frames to the same memory.
func TestCheckSeesOtherBytes(t *testing.T) {
	careless := newContender("the same memory", func(shape) buffer[[]byte] {
		var memory [maxFrame]byte
		n := 0
		write := func(i int) { n = copy(memory[:], frame(i)) }
		return buffer[[]byte]{
			ten: write, whole: write, take: func() []byte { return memory[:n] },
			bytes: func(p *[]byte) []byte { return *p }, release: func(*[]byte) {},
		}
	})
	if careless.check() == nil {
		t.Error("other bytes are not seen")
	}
}

// TestHandOffDelivers compares the sum of the bytes read from the frames.
func TestHandOffDelivers(t *testing.T) {
	const frames = 200
	var sum uint64
	for i := range frames {
		n, src := message(i)
		sum += uint64(src[0]) + uint64(src[n/pieceSize-1+pieceSize-1])
	}
	for _, c := range contenders {
		sink.Store(0)
		do, _ := c.open(ample, "handoff")
		if do(frames); sink.Load() != sum {
			t.Errorf("%s: the sum of what was read is %d, want %d", c.name, sink.Load(), sum)
		}
	}
}

// TestPoolHasSlots checks that there is a slot for each frame, even if as many frames are held as
// there are slots.
func TestPoolHasSlots(t *testing.T) {
	for _, live := range []int{1, 8, 64} {
		for _, o := range []order{newest, oldest, anyOrder} {
			s := shape{capacity: 64 << 10, slots: max(live, 8), live: live, order: o}
			got, err := poolSlots(s).Turn(10_000)
			if err != nil || got.More["outside"] > 0 || got.Allocs > 100 {
				t.Errorf("%+v: %+v, %v, want all frames from the arena", s, got, err)
			}
		}
	}
}

// TestCrateDelivers compares the Rust program's frames by a hash of all bytes.
func TestCrateDelivers(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a Rust program")
	}
	c, err := startCrate(t.Context(), "../"+crateDir)
	benchtest.Need(t, err)
	defer func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}()
	const frames = 500
	for _, kind := range []string{"ten", "whole"} {
		h := fnv.New64a()
		for i := range frames {
			n, src := message(i)
			if kind == "whole" {
				h.Write(src[:n])
				continue
			}
			for k := range n / pieceSize {
				h.Write(src[k : k+pieceSize])
			}
		}
		for _, name := range []string{"pool", "heap"} {
			if sum, err := c.sum(kind+"/"+name, frames); err != nil || sum != h.Sum64() {
				t.Errorf("%s by %s: hash %x, %v, want %x", kind, name, sum, err, h.Sum64())
			}
		}
	}
	if _, err := c.benchmark("", "ten/none").Turn(1); err == nil {
		t.Error("a contender that does not exist has a turn")
	}
}

func TestProgram(t *testing.T) {
	t.Setenv("PATH", t.TempDir()) // without cargo
	var out strings.Builder
	if err := Program.Main(t.Context(), []string{"-rounds", "1", "-turn", "1us"}, &out,
		t.Output()); err != nil {
		t.Fatal(err)
	}
	for _, c := range contenders {
		if n := strings.Count(out.String(), "| "+c.name); n < 3 {
			t.Errorf("%d rows of %q:\n%s", n, c.name, &out)
		}
	}
}
