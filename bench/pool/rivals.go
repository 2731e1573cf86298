package pool

import (
	"math/bits"

	"github.com/bytedance/gopkg/lang/mcache"
	"github.com/valyala/bytebufferpool"
	"google.golang.org/grpc/mem"
)

// lendByteBufferPool has a pool for the size, as its documentation advises. A buffer comes empty, and with the room that the
// pool has found most of them to need.
func lendByteBufferPool(size int) lending[*bytebufferpool.ByteBuffer] {
	pool := new(bytebufferpool.Pool)
	return lending[*bytebufferpool.ByteBuffer]{
		alone: func(n int) (sum uint64) {
			for i := range n {
				b := pool.Get()
				room(b, size)
				touch(b.B, byte(i))
				sum += uint64(b.B[0])
				pool.Put(b)
			}
			return sum
		},
		take: func(all []*bytebufferpool.ByteBuffer) {
			for i := range all {
				all[i] = pool.Get()
				room(all[i], size)
				touch(all[i].B, byte(i))
			}
		},
		give: func(all []*bytebufferpool.ByteBuffer) (sum uint64) {
			for _, b := range all {
				sum += look(b.B)
				pool.Put(b)
			}
			clear(all)
			return sum
		},
		bytes: func(b **bytebufferpool.ByteBuffer) []byte { return (*b).B },
	}
}

// room makes b that long, in the memory that it has if there is enough.
func room(b *bytebufferpool.ByteBuffer, size int) {
	if cap(b.B) < size {
		b.B = make([]byte, size)
	}
	b.B = b.B[:size]
}

// lendGRPC has buffers of just the size, which is a power of two.
func lendGRPC(size int) lending[*[]byte] {
	pool, err := mem.NewBinaryTieredBufferPool(uint8(bits.TrailingZeros(uint(size))))
	if err != nil {
		panic(err)
	}
	return lendFromGRPC(pool, size)
}

// lendGRPCDefault has the tiers that gRPC chose for itself. What the smaller ones cannot hold comes from the one of 1 MiB.
func lendGRPCDefault(size int) lending[*[]byte] { return lendFromGRPC(mem.DefaultBufferPool(), size) }

func lendFromGRPC(pool mem.BufferPool, size int) lending[*[]byte] {
	return lending[*[]byte]{
		alone: func(n int) (sum uint64) {
			for i := range n {
				p := pool.Get(size)
				touch(*p, byte(i))
				sum += uint64((*p)[0])
				pool.Put(p)
			}
			return sum
		},
		take: func(all []*[]byte) {
			for i := range all {
				all[i] = pool.Get(size)
				touch(*all[i], byte(i))
			}
		},
		give: func(all []*[]byte) (sum uint64) {
			for _, p := range all {
				sum += look(*p)
				pool.Put(p)
			}
			clear(all)
			return sum
		},
		bytes: pointed,
	}
}

func lendMcache(size int) lending[[]byte] {
	return lending[[]byte]{
		alone: func(n int) (sum uint64) {
			for i := range n {
				p := mcache.Malloc(size)
				touch(p, byte(i))
				sum += uint64(p[0])
				mcache.Free(p)
			}
			return sum
		},
		take: func(all [][]byte) {
			for i := range all {
				all[i] = mcache.Malloc(size)
				touch(all[i], byte(i))
			}
		},
		give: func(all [][]byte) (sum uint64) {
			for _, p := range all {
				sum += look(p)
				mcache.Free(p)
			}
			clear(all)
			return sum
		},
		bytes: itself,
	}
}
