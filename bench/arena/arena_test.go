package arena

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"testing"
	"time"
)

var contenders = map[string]works{
	"arena.Pool": ofPool(), "arena.Heap": ofHeap(), "make, grown": ofMade(), "make of the length": ofSized(),
	"sync.Pool": ofPooled(), "map": ofMapped(), "ceiling": ofCeiling(),
}

// want is the frame that message i makes: every third is written at once.
func want(i int) []byte {
	n, src := message(i)
	if i%3 == 2 {
		return src[:n]
	}
	var frame []byte
	for k := range n / piece {
		frame = append(frame, src[k:k+piece]...)
	}
	return frame
}

// TestContendersDeliver checks that nobody wins by leaving something out: each
// frame is as it was written until just before it is released.
func TestContendersDeliver(t *testing.T) {
	const frames = 500
	for name, of := range contenders {
		for _, s := range []Shape{original, ample} {
			s.Live = 6
			t.Run(name, func(t *testing.T) {
				shown := 0
				of.deliver(s, frames, func(i int, frame []byte) {
					if i != shown {
						t.Fatalf("frame %d comes after %d others", i, shown)
					}
					if shown++; !bytes.Equal(frame, want(i)) {
						t.Fatalf("frame %d differs: %d bytes, want %d", i, len(frame), len(want(i)))
					}
				})
				if shown != frames {
					t.Errorf("%d frames, want %d", shown, frames)
				}
			})
		}
	}
}

// TestHandOffDelivers checks that everybody looks at the same frames, by the sum
// of what they saw.
func TestHandOffDelivers(t *testing.T) {
	const frames = 200
	var sum uint64
	for i := range frames {
		n, src := message(i)
		sum += uint64(src[0]) + uint64(src[n/piece-1+piece-1])
	}
	for name, of := range contenders {
		for kind, work := range map[string]func(Shape) Work{"apart": of.apart, "pairs": of.pairs} {
			t.Run(name+" "+kind, func(t *testing.T) {
				looked.Store(0)
				work(ample).Do(frames)
				if got := looked.Load(); got != sum {
					t.Errorf("sum %d of what was seen, want %d", got, sum)
				}
			})
		}
	}
}

// TestCrateDelivers checks the same of the Rust program, by a hash of all bytes.
func TestCrateDelivers(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a Rust program")
	}
	c := startCrate(t)
	const frames = 500
	for _, kind := range []string{"ten", "whole"} {
		h := fnv.New64a()
		for i := range frames {
			n, src := message(i)
			if kind == "whole" {
				h.Write(src[:n])
				continue
			}
			for k := range n / piece {
				h.Write(src[k : k+piece])
			}
		}
		for _, name := range []string{"pool", "heap", "map-by-write", "map-by-frame", "ceiling"} {
			if sum, err := c.Sum(kind+"/"+name, frames); err != nil || sum != h.Sum64() {
				t.Errorf("%s by %s: hash %x, %v, want %x", kind, name, sum, err, h.Sum64())
			}
		}
	}
	if err := c.Turner("ten/nobody").Turn(1, new(Result)); err == nil {
		t.Error("a contender that there is not has a turn")
	}
}

func startCrate(t *testing.T) *Crate {
	t.Helper()
	c, err := StartCrate(context.Background(), "../buffersv2")
	if errors.Is(err, ErrNoCrate) && os.Getenv("CI") == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// TestStructureHasSlots checks that there is a slot for each frame, also where as
// many are held as there are slots.
func TestStructureHasSlots(t *testing.T) {
	for _, r := range Structure(nil) {
		var got Result
		if err := r.Ours.Turn(10_000, &got); err != nil || got.OnHeap[0] > 0 {
			t.Errorf("%d live, %d slots, %s: %.2f of the frames are on the heap, %v", r.Live, r.Slots, r.Order, got.OnHeap, err)
		}
	}
}

func TestMeasure(t *testing.T) {
	rows := append(append(Ten(nil), Whole(nil)...), Structure(nil)[0].rows()...)
	turners := make([]Turner, len(rows))
	for i, r := range rows {
		turners[i] = r.Turner
	}
	results, err := Measure(turners, 2, time.Microsecond)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range results {
		if len(r.Nanos) != 2 || len(r.Bytes) != 2 || r.Nanos.Min() <= 0 {
			t.Errorf("%s: %v ns, %v bytes", rows[i].Name, r.Nanos, r.Bytes)
		}
	}
}

func BenchmarkArena(b *testing.B) {
	for _, t := range []struct {
		name string
		rows []Row
	}{{"Ten", Ten(nil)}, {"Whole", Whole(nil)}, {"Apart", Apart(nil)}, {"Pairs", Pairs(nil)}} {
		for _, r := range t.rows {
			b.Run(t.name+"/"+r.Name, func(b *testing.B) { r.Turner.(goTurner).benchmark(b) })
		}
	}
	for _, r := range Structure(nil) {
		for _, row := range r.rows() {
			b.Run("Slots/"+row.Name, func(b *testing.B) { row.Turner.(goTurner).benchmark(b) })
		}
	}
}

func (t goTurner) benchmark(b *testing.B) {
	w := t.open(t.shape)
	b.ReportAllocs()
	b.ResetTimer()
	w.Do(b.N)
}

// rows names each that is measured in one shape.
func (r SlotsRow) rows() []Row {
	shape := fmt.Sprintf("%d_of_%d_%s/", r.Live, r.Slots, r.Order)
	return []Row{
		{Name: shape + "arena.Pool", Turner: r.Ours},
		{Name: shape + "make", Turner: r.Made},
		{Name: shape + "sync.Pool", Turner: r.Pooled},
	}
}
