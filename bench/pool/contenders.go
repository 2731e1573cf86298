package pool

import (
	"sync"
	"sync/atomic"

	"github.com/millrace-io/millrace"
)

// baseName is the contender that the others are compared with.
const baseName = "sync.Pool of *[]byte"

// contenders are all of them, in the order of the tables.
var contenders = []contender{
	newContender("no pool: the same buffers stay", lendSame),
	newContender("millrace.Pool, Get and Release", lendMillrace),
	newContender(baseName, lendSyncPool),
	newContender("grpc mem, a tier for the size", lendGRPC),
	newContender("bytedance mcache", lendMcache),
	newContender("mutex and a stack (LIFO)", lendStack),
	newContender("make", lendMake),
}

// lendSame is what it takes to touch the buffers and to hand them over: as many as are ever out take turns. It relies on
// the order in which they come back, and is no pool.
func lendSame(size int) lending[[]byte] {
	buffers := make([][]byte, freeList)
	for i := range buffers {
		buffers[i] = make([]byte, size)
	}
	var turn atomic.Uint32
	next := func() []byte { return buffers[turn.Add(1)%freeList] }
	return lending[[]byte]{
		alone: func(n int) (sum uint64) {
			p := next()
			for i := range n {
				touch(p, byte(i))
				sum += uint64(p[0])
			}
			return sum
		},
		take: func(all [][]byte) {
			for i := range all {
				all[i] = next()
				touch(all[i], byte(i))
			}
		},
		give: func(all [][]byte) (sum uint64) {
			for _, p := range all {
				sum += look(p)
			}
			return sum
		},
		bytes: itself,
	}
}

func itself(p *[]byte) []byte { return *p }

func lendMillrace(size int) lending[millrace.Draft] {
	return lendMillraceFrom(millrace.NewPool(), size)
}

func lendMillraceFrom(pool *millrace.Pool, size int) lending[millrace.Draft] {
	return lending[millrace.Draft]{
		alone: func(n int) (sum uint64) {
			for i := range n {
				d := pool.Get(size)
				p := d.Bytes()[:size]
				touch(p, byte(i))
				sum += uint64(p[0])
				d.Release()
			}
			return sum
		},
		take: func(all []millrace.Draft) {
			for i := range all {
				all[i] = pool.Get(size)
				touch(all[i].Bytes()[:size], byte(i))
			}
		},
		give: func(all []millrace.Draft) (sum uint64) {
			for i := range all {
				sum += look(all[i].Bytes()[:size])
				all[i].Release()
			}
			return sum
		},
		bytes: func(d *millrace.Draft) []byte { return d.Bytes()[:size] },
	}
}

// lendSyncPool keeps pointers, as sync.Pool's documentation advises: to put a slice into it allocates.
func lendSyncPool(size int) lending[*[]byte] {
	pool := sync.Pool{New: func() any {
		p := make([]byte, size)
		return &p
	}}
	return lending[*[]byte]{
		alone: func(n int) (sum uint64) {
			for i := range n {
				p := pool.Get().(*[]byte)
				touch(*p, byte(i))
				sum += uint64((*p)[0])
				pool.Put(p)
			}
			return sum
		},
		take: func(all []*[]byte) {
			for i := range all {
				all[i] = pool.Get().(*[]byte)
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

func pointed(p **[]byte) []byte { return **p }

// freeList is how many buffers a free list keeps: all that are ever out.
const freeList = batch * batches

// A stack is a free list that gives first what came last, and is the most likely to be in the processor's cache.
type stack struct {
	mu   sync.Mutex
	free [][]byte
	size int
}

func (s *stack) get() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.free) - 1
	if n < 0 {
		return make([]byte, s.size)
	}
	p := s.free[n]
	s.free[n] = nil
	s.free = s.free[:n]
	return p
}

func (s *stack) put(p []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.free) < freeList {
		s.free = append(s.free, p)
	}
}

func lendStack(size int) lending[[]byte] {
	s := &stack{size: size}
	return lending[[]byte]{
		alone: func(n int) (sum uint64) {
			for i := range n {
				p := s.get()
				touch(p, byte(i))
				sum += uint64(p[0])
				s.put(p)
			}
			return sum
		},
		take: func(all [][]byte) {
			for i := range all {
				all[i] = s.get()
				touch(all[i], byte(i))
			}
		},
		give: func(all [][]byte) (sum uint64) {
			for _, p := range all {
				sum += look(p)
				s.put(p)
			}
			clear(all)
			return sum
		},
		bytes: itself,
	}
}

func lendMake(size int) lending[[]byte] {
	return lending[[]byte]{
		alone: func(n int) (sum uint64) {
			for i := range n {
				p := make([]byte, size)
				touch(p, byte(i))
				sum += uint64(p[0])
			}
			return sum
		},
		take: func(all [][]byte) {
			for i := range all {
				all[i] = make([]byte, size)
				touch(all[i], byte(i))
			}
		},
		give: func(all [][]byte) (sum uint64) {
			for _, p := range all {
				sum += look(p)
			}
			clear(all)
			return sum
		},
		bytes: itself,
	}
}
