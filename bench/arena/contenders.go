package arena

import (
	"bytes"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace/arena"
	"github.com/millrace-io/millrace/bench/measure"
)

const poolName = "arena.Pool"

var contenders = []contender{
	newContender(poolName, openPool),
	newContender("make of the length", openMade),
	newContender("sync.Pool", openPooled),
}

// A buffer assembles frames of type F, one at a time.
type buffer[F any] struct {
	ten     func(i int) // writes message i, ten bytes at a time
	whole   func(i int) // writes message i at once
	take    func() F
	bytes   func(*F) []byte
	release func(*F)
	outside func() uint64 // counts the frames outside the Pool's memory; nil if there is no Pool
}

// A contender is an implementation of buffer. Its functions hide the type of the frames.
type contender struct {
	name string
	// open creates a buffer for one kind of work: "ten", "whole" or "handoff". The function do
	// performs n operations. The function outside is buffer.outside.
	open    func(s shape, kind string) (do func(n int), outside func() uint64)
	deliver func(s shape, n int, inspect func(i int, frame []byte)) // see buffer.deliver
}

func newContender[F any](name string, open func(shape) buffer[F]) contender {
	return contender{
		name: name,
		open: func(s shape, kind string) (func(int), func() uint64) {
			b := open(s)
			switch kind {
			case "ten":
				return func(n int) { b.assemble(n, b.ten) }, b.outside
			case "whole":
				return func(n int) { b.assemble(n, b.whole) }, b.outside
			case "handoff":
				return b.handOff, b.outside
			}
			panic("no kind of work: " + kind)
		},
		deliver: func(s shape, n int, inspect func(int, []byte)) {
			open(s).deliver(s.live, n, inspect)
		},
	}
}

func (b buffer[F]) assemble(n int, write func(int)) {
	var frame F // declared outside the loop, because it escapes to the heap
	for i := range n {
		write(i)
		frame = b.take()
		b.release(&frame)
	}
}

// handOff passes each of n frames to its own goroutine, which releases the frame after a delay.
func (b buffer[F]) handOff(n int) {
	free := make(chan struct{}, holders)
	var out sync.WaitGroup
	for i := range n {
		free <- struct{}{}
		b.ten(i)
		frame := b.take()
		out.Go(func() {
			time.Sleep(hold)
			p := b.bytes(&frame)
			sink.Add(uint64(p[0]) + uint64(p[len(p)-1]))
			b.release(&frame)
			<-free
		})
	}
	out.Wait()
}

// sink keeps the compiler from removing the reads in handOff.
var sink atomic.Uint64

// deliver assembles n frames, alternately in pieces and at once. It holds up to maxHeld frames, and
// passes each frame to inspect before releasing it.
func (b buffer[F]) deliver(maxHeld, n int, inspect func(i int, frame []byte)) {
	held := make([]F, maxHeld)
	for i := range n + maxHeld {
		at := i % maxHeld
		if i >= maxHeld {
			inspect(i-maxHeld, b.bytes(&held[at]))
			b.release(&held[at])
		}
		if i >= n {
			continue
		}
		if i%2 == 0 {
			b.ten(i)
		} else {
			b.whole(i)
		}
		held[at] = b.take()
	}
}

func frame(i int) (p []byte) {
	n, src := message(i)
	if i%2 == 1 {
		return src[:n]
	}
	for k := range n / pieceSize {
		p = append(p, src[k:k+pieceSize]...)
	}
	return p
}

func (c contender) check() (err error) {
	const frames = 100
	for _, s := range []shape{original, ample} {
		s.live = 6
		shown := 0
		c.deliver(s, frames, func(i int, p []byte) {
			if i != shown || !bytes.Equal(p, frame(i)) {
				err = fmt.Errorf("%s: frame %d is not what was written", c.name, i)
			}
			shown++
		})
		if shown != frames {
			err = fmt.Errorf("%s: %d frames of %d", c.name, shown, frames)
		}
	}
	return err
}

// The warm-up of each turn performs between minWarmUp and maxWarmUp operations.
const (
	minWarmUp = 64
	maxWarmUp = 1024
)

func (c contender) benchmark(name, kind string, s shape) measure.Contender {
	return newBenchmark(name, func() (func(int), func() uint64) { return c.open(s, kind) })
}

func newBenchmark(
	name string, open func() (do func(n int), outside func() uint64),
) measure.Contender {
	return measure.Contender{Name: name, Turn: func(n int) (measure.Turn, error) {
		do, outside := open()
		do(min(max(n/8, minWarmUp), maxWarmUp))
		runtime.GC()
		if outside == nil {
			return measure.Take(n, func() { do(n) }), nil
		}
		before := outside()
		t := measure.Take(n, func() { do(n) })
		t.More = map[string]float64{"outside": float64(outside()-before) / float64(n)}
		return t, nil
	}}
}

func newPool(s shape) *arena.Pool { return arena.NewPool(s.capacity, arena.Slots(s.slots)) }

func onHeap(p *arena.Pool) func() uint64 {
	return func() uint64 { return p.Stats().Modes[arena.Alloc].Frames }
}

// The contenders copy pieces by assigning arrays. The compiler turns each assignment into one or
// two loads and stores.

func openPool(s shape) buffer[arena.Slice] {
	p := newPool(s)
	return buffer[arena.Slice]{
		ten: func(i int) {
			n, src := message(i)
			for k := range n / pieceSize {
				dst := p.Writable(pieceSize)
				*(*[pieceSize]byte)(dst) = *(*[pieceSize]byte)(src[k : k+pieceSize])
			}
		},
		whole: func(i int) {
			n, src := message(i)
			copy(p.Writable(n), src[:n])
		},
		take: p.Take, bytes: (*arena.Slice).Bytes, release: (*arena.Slice).Release,
		outside: onHeap(p),
	}
}

// openMade returns a buffer that allocates each frame with its exact length.
func openMade(shape) buffer[[]byte] {
	var p []byte
	return buffer[[]byte]{
		ten: func(i int) {
			n, src := message(i)
			p = make([]byte, n/pieceSize*pieceSize)
			for k := range n / pieceSize {
				*(*[pieceSize]byte)(p[k*pieceSize:]) = *(*[pieceSize]byte)(src[k : k+pieceSize])
			}
		},
		whole: func(i int) {
			n, src := message(i)
			p = make([]byte, n)
			copy(p, src)
		},
		take: func() []byte {
			frame := p
			p = nil
			return frame
		},
		bytes:   func(frame *[]byte) []byte { return *frame },
		release: func(frame *[]byte) { *frame = nil },
	}
}

// openPooled returns a buffer that takes slices from a sync.Pool. Each slice has room for any
// frame.
func openPooled(shape) buffer[*[]byte] {
	pool := sync.Pool{New: func() any {
		b := make([]byte, 0, maxFrame)
		return &b
	}}
	var buf *[]byte
	var p []byte // grows with each piece, as if the length of the frame were unknown
	return buffer[*[]byte]{
		ten: func(i int) {
			n, src := message(i)
			buf = pool.Get().(*[]byte)
			p = (*buf)[:0]
			for k := range n / pieceSize {
				p = append(p, src[k:k+pieceSize]...)
			}
		},
		whole: func(i int) {
			n, src := message(i)
			buf = pool.Get().(*[]byte)
			p = append((*buf)[:0], src[:n]...)
		},
		take: func() *[]byte {
			*buf = p
			return buf
		},
		bytes:   func(frame **[]byte) []byte { return **frame },
		release: func(frame **[]byte) { pool.Put(*frame) },
	}
}

func poolSlots(s shape) measure.Contender {
	return newBenchmark(poolName, func() (func(int), func() uint64) {
		p := newPool(s)
		held := make([]arena.Slice, s.live)
		for i := range held {
			p.Writable(slotSize)[0] = 1
			held[i] = p.Take()
		}
		if s.order == newest {
			held[s.live-1].Release()
			return func(n int) {
				for i := range n {
					p.Writable(slotSize)[0] = byte(i)
					frame := p.Take()
					frame.Release()
				}
			}, onHeap(p)
		}
		next := slotOrder(s)
		return func(n int) {
			for i := range n {
				at := next[i%maxOrders]
				held[at].Release()
				p.Writable(slotSize)[0] = byte(i)
				held[at] = p.Take()
			}
		}, onHeap(p)
	})
}

func madeSlots(s shape) measure.Contender {
	return newBenchmark("make", func() (func(int), func() uint64) {
		held, next := make([][]byte, s.live), slotOrder(s)
		return func(n int) {
			for i := range n {
				p := make([]byte, slotSize)
				p[0] = byte(i)
				held[next[i%maxOrders]] = p
			}
		}, nil
	})
}

func pooledSlots(s shape) measure.Contender {
	return newBenchmark("sync.Pool", func() (func(int), func() uint64) {
		pool := sync.Pool{New: func() any {
			b := make([]byte, slotSize)
			return &b
		}}
		held, next := make([]*[]byte, s.live), slotOrder(s)
		for i := range held {
			held[i] = pool.Get().(*[]byte)
		}
		return func(n int) {
			for i := range n {
				at := next[i%maxOrders]
				pool.Put(held[at])
				p := pool.Get().(*[]byte)
				(*p)[0] = byte(i)
				held[at] = p
			}
		}, nil
	})
}
