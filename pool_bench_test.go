package millrace_test

import (
	"sync"
	"testing"

	"github.com/millrace-io/millrace"
)

// benchBlock is the size of the blocks that are taken. Each is touched, as somebody who takes one would.
const benchBlock = 16 << 10

// BenchmarkPool takes a block and gives it back: on one goroutine, on all processors at once, and taken on one goroutine
// and given back on another. A sync.Pool is faster, because it has a list for each processor; it does not know how much
// is out, and keeps what it likes. A Reader and a Chain take one block for many packets, which is where it matters less.
func BenchmarkPool(b *testing.B) {
	b.Run("sync.Pool", func(b *testing.B) {
		pool := sync.Pool{New: func() any { return new([benchBlock]byte) }}
		get := func() *[benchBlock]byte {
			p := pool.Get().(*[benchBlock]byte)
			p[0]++
			return p
		}
		benchmarkLoans(b, get, func(p *[benchBlock]byte) { pool.Put(p) })
	})
	b.Run("millrace", func(b *testing.B) {
		pool := millrace.NewPool()
		get := func() millrace.Draft {
			d := pool.Get(benchBlock)
			d.Bytes()[0]++
			return d
		}
		benchmarkLoans(b, get, func(d millrace.Draft) { d.Release() })
	})
	b.Run("make", func(b *testing.B) {
		get := func() []byte {
			p := make([]byte, benchBlock)
			p[0]++
			return p
		}
		benchmarkLoans(b, get, func(p []byte) { touch(p) })
	})
}

func benchmarkLoans[T any](b *testing.B, get func() T, put func(T)) {
	b.Run("one goroutine", func(b *testing.B) {
		measure(b, benchBlock, func() { put(get()) })
	})
	b.Run("all processors", func(b *testing.B) {
		b.SetBytes(benchBlock)
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				put(get())
			}
		})
	})
	b.Run("handed over", func(b *testing.B) {
		b.SetBytes(benchBlock)
		b.ReportAllocs()
		loans := make(chan T, 128)
		var taker sync.WaitGroup
		taker.Go(func() {
			for l := range loans {
				put(l)
			}
		})
		for b.Loop() {
			loans <- get()
		}
		close(loans)
		taker.Wait()
	})
}
