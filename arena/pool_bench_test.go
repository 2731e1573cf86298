package arena_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/millrace-io/millrace/arena"
)

// benchOrders say which of those that are held goes next: no generator of random numbers is part of what is measured.
var benchOrders = []struct {
	name string
	next func(i, live int) int
}{
	{"newest", func(_, live int) int { return live - 1 }},
	{"oldest", func(i, live int) int { return i % live }},
	{"random", func(i, live int) int { return shuffled[i%len(shuffled)] % live }},
}

var shuffled = rand.New(rand.NewPCG(51, 51)).Perm(1 << 12)

// BenchmarkStructure is what a frame costs beside its bytes: Writable(32), Take and Release, while a number of them is
// held, and released in an order.
func BenchmarkStructure(b *testing.B) {
	for _, slots := range []int{8, 64, 512} {
		for _, order := range benchOrders {
			for _, live := range []int{1, 2, 4, 8, 16, 32, 64} {
				if live > slots {
					continue
				}
				b.Run(fmt.Sprintf("slots=%d/%s/live=%d", slots, order.name, live), func(b *testing.B) {
					pool := arena.NewPool(1<<16, arena.Slots(slots))
					benchmarkStructure(b, pool, live, order.next)
				})
			}
		}
	}
}

// BenchmarkStructureHeap is the same without a Pool.
func BenchmarkStructureHeap(b *testing.B) {
	benchmarkStructure(b, new(arena.Heap), 1, benchOrders[0].next)
}

func benchmarkStructure(b *testing.B, buffer arena.Buffer, live int, next func(i, live int) int) {
	held := make([]arena.Slice, live)
	for i := range held {
		buffer.Writable(32)
		held[i] = buffer.Take()
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		s := &held[next(i, live)]
		s.Release()
		buffer.Writable(32)
		*s = buffer.Take()
		i++
	}
	for i := range held {
		held[i].Release()
	}
}

// Messages are between these lengths, in bytes.
const (
	benchLeast = 16384 - 12000
	benchMost  = 16384
)

// benchLengths are what messages have, in turn. Each is a number of tens.
var benchLengths = func() (lengths [1 << 10]int) {
	rng := rand.New(rand.NewPCG(52, 52))
	for i := range lengths {
		lengths[i] = (benchLeast + rng.IntN(benchMost-benchLeast)) / 10 * 10
	}
	return lengths
}()

// BenchmarkMessages writes two messages and then releases both: each in one step, or in steps of ten bytes. SetBytes is
// the mean of the two.
func BenchmarkMessages(b *testing.B) {
	message := randomBytes(benchMost)
	ten := [10]byte(message)
	steps := []struct {
		name  string
		write func(buffer arena.Buffer, n int)
	}{
		{"whole", func(buffer arena.Buffer, n int) { copy(buffer.Writable(n), message) }},
		{"tens, array", func(buffer arena.Buffer, n int) {
			for range n / 10 {
				*(*[10]byte)(buffer.Writable(10)) = ten
			}
		}},
		{"tens, copy", func(buffer arena.Buffer, n int) {
			for range n / 10 {
				copy(buffer.Writable(10), message[:10])
			}
		}},
	}
	for _, step := range steps {
		for _, buffer := range []arena.Buffer{arena.NewPool(5 << 16), new(arena.Heap)} {
			b.Run(fmt.Sprintf("%s/%T", step.name, buffer), func(b *testing.B) {
				benchmarkMessages(b, func(n, m int) {
					step.write(buffer, n)
					first := buffer.Take()
					step.write(buffer, m)
					second := buffer.Take()
					first.Release()
					second.Release()
				})
			})
		}
	}
	b.Run("whole/make and copy", func(b *testing.B) {
		benchmarkMessages(b, func(n, m int) {
			sinks[0], sinks[1] = make([]byte, n), make([]byte, m)
			copy(sinks[0], message)
			copy(sinks[1], message)
		})
	})
	b.Run("whole/sync.Pool", func(b *testing.B) {
		pool := sync.Pool{New: func() any { return new([benchMost]byte) }}
		benchmarkMessages(b, func(n, m int) {
			first := pool.Get().(*[benchMost]byte)
			copy(first[:n], message)
			second := pool.Get().(*[benchMost]byte)
			copy(second[:m], message)
			pool.Put(first)
			pool.Put(second)
		})
	})
}

// sinks keep what is made from staying on the stack.
var sinks [2][]byte

func benchmarkMessages(b *testing.B, two func(n, m int)) {
	b.SetBytes(benchLeast + benchMost)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		two(benchLengths[i%len(benchLengths)], benchLengths[(i+1)%len(benchLengths)])
		i += 2
	}
}
