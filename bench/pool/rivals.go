package pool

import (
	"math/bits"

	"github.com/bytedance/gopkg/lang/mcache"
	"google.golang.org/grpc/mem"
)

// lendGRPC has buffers of just the size, which is a power of two.
func lendGRPC(size int) lending[*[]byte] {
	pool, err := mem.NewBinaryTieredBufferPool(uint8(bits.TrailingZeros(uint(size))))
	if err != nil {
		panic(err)
	}
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
