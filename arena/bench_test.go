package arena_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/millrace-io/millrace/arena"
)

var shuffled = rand.New(rand.NewPCG(51, 51)).Perm(1 << 12)

// BenchmarkFrame measures the cost of a frame without its bytes: Writable(32), Take and Release. A
// number of frames is held, and they are released in a given order.
func BenchmarkFrame(b *testing.B) {
	orders := []struct {
		name string
		next func(i, live int) int
	}{
		{"newest", func(_, live int) int { return live - 1 }},
		{"oldest", func(i, live int) int { return i % live }},
		{"random", func(i, live int) int { return shuffled[i%len(shuffled)] % live }},
	}
	for _, size := range []struct{ slots, live int }{{8, 1}, {8, 8}, {64, 8}, {64, 64}, {512, 64}} {
		for _, order := range orders {
			b.Run(fmt.Sprintf("slots=%d/live=%d/%s", size.slots, size.live, order.name),
				func(b *testing.B) {
					benchmarkFrame(b, arena.NewPool(1<<16, arena.Slots(size.slots)), size.live,
						order.next)
				})
		}
	}
	b.Run("Heap", func(b *testing.B) { benchmarkFrame(b, new(arena.Heap), 1, orders[0].next) })
}

func benchmarkFrame(b *testing.B, buffer arena.Buffer, live int, next func(i, live int) int) {
	held := make([]arena.Slice, live)
	for i := range held {
		buffer.Writable(32)
		held[i] = buffer.Take()
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		s := &held[next(i, live)]
		s.Release()
		buffer.Writable(32)
		*s = buffer.Take()
	}
}
