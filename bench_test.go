package millrace_test

import (
	"fmt"
	"io"
	"net/http/httputil"
	"sync"
	"testing"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/testkit/nettest"
)

// A burst returns 64 to 2048 bytes from each Read, as a network does, at almost no cost.
type burst struct {
	state uint64
	data  [4096]byte
}

func (b *burst) Read(p []byte) (int, error) {
	b.state ^= b.state << 13
	b.state ^= b.state >> 7
	b.state ^= b.state << 17
	return copy(p, b.data[:64+b.state%1985]), nil
}

func newBurst() *burst {
	b := &burst{state: 88172645463325252}
	for i := range b.data {
		b.data[i] = byte(7 * i)
	}
	return b
}

// sink keeps reads from being optimized away.
var sink byte

func touch(p []byte) { sink ^= p[0] }

// measure runs f, which handles size bytes.
func measure(b *testing.B, size int, f func()) {
	b.Helper()
	b.SetBytes(int64(size))
	b.ReportAllocs()
	for b.Loop() {
		f()
	}
}

// BenchmarkReader reads packets of three sizes in each way that a Reader offers. The programs in
// bench compare the Reader with other packages.
func BenchmarkReader(b *testing.B) {
	for _, size := range []int{64, 1 << 10, 16 << 10} {
		b.Run(fmt.Sprintf("N%d", size), func(b *testing.B) {
			b.Run("Peek", func(b *testing.B) {
				r := millrace.NewReaderSize(newBurst(), max(4096, size))
				defer r.Release()
				measure(b, size, func() {
					if p, err := r.Peek(size); err == nil {
						touch(p)
					}
					r.Discard(size)
				})
			})
			b.Run("ReadRange", func(b *testing.B) {
				r := millrace.NewReader(newBurst())
				defer r.Release()
				measure(b, size, func() { r.ReadRange(size, touch) })
			})
			b.Run("ReadChain", func(b *testing.B) {
				r := millrace.NewReader(newBurst())
				defer r.Release()
				var c millrace.Chain
				measure(b, size, func() {
					r.ReadChain(&c, size)
					for p := range c.All() {
						touch(p)
					}
					c.Release()
				})
			})
			b.Run("ReadChain, the last 64 kept", func(b *testing.B) { benchmarkKept(b, size) })
		})
	}
}

func benchmarkKept(b *testing.B, size int) {
	r := millrace.NewReader(newBurst())
	defer r.Release()
	var kept [64]millrace.Chain
	i := 0
	measure(b, size, func() {
		kept[i%len(kept)].Release()
		r.ReadChain(&kept[i%len(kept)], size)
		i++
	})
	for i := range kept {
		kept[i].Release()
	}
}

// BenchmarkWriteTo sends 64 KiB over TCP on loopback in the given number of pieces, with one
// writev.
func BenchmarkWriteTo(b *testing.B) {
	const size = 64 << 10
	for _, pieces := range []int{1, 4, 64} {
		b.Run(fmt.Sprintf("%d pieces", pieces), func(b *testing.B) {
			// c keeps its room for pieces, as a connection's send queue does.
			var whole, c millrace.Chain
			addBlocks(newPool(b), &whole, letters(size), size/pieces)
			defer whole.Release()
			client, server := nettest.TCPPair(b, false)
			go io.Copy(io.Discard, server)
			measure(b, size, func() {
				whole.CloneTo(&c)
				if _, err := c.WriteTo(client); err != nil {
					b.Fatal(err)
				}
			})
		})
	}
}

// A draftPool is an httputil.BufferPool over a Pool. It finds the Draft of a returned slice in a
// map.
type draftPool struct {
	pool   *millrace.Pool
	drafts sync.Map // *byte, the first of a slice: millrace.Draft
}

func (p *draftPool) Get() []byte {
	d := p.pool.Get(32 << 10)
	b := d.Bytes()
	p.drafts.Store(&b[0], d)
	return b
}

func (p *draftPool) Put(b []byte) {
	v, _ := p.drafts.LoadAndDelete(&b[0])
	d := v.(millrace.Draft)
	d.Release()
}

// slicePool is an httputil.BufferPool over a sync.Pool.
type slicePool struct{ pool sync.Pool }

func (p *slicePool) Get() []byte {
	if b, ok := p.pool.Get().(*[]byte); ok {
		return *b
	}
	return make([]byte, 32<<10)
}

func (p *slicePool) Put(b []byte) { p.pool.Put(&b) }

// BenchmarkBufferPool compares buffers for code that exchanges slices. docs/chain.md recommends a
// sync.Pool there.
func BenchmarkBufferPool(b *testing.B) {
	for _, c := range []struct {
		name string
		pool httputil.BufferPool
	}{{"sync.Pool", &slicePool{}}, {"millrace.Pool", &draftPool{pool: millrace.DefaultPool()}}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					c.pool.Put(c.pool.Get())
				}
			})
		})
	}
}
