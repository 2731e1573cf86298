// Code generated from pool.go; DO NOT EDIT.

package arena

import (
	"time"

	"github.com/millrace-io/millrace/arena"
)

func ofHeap() works {
	return works{
		ten:     tenOfHeap,
		tenCopy: tenCopyOfHeap,
		whole:   wholeOfHeap,
		slots:   slotsOfHeap,
		apart:   apartOfHeap,
		pairs:   pairsOfHeap,
		deliver: deliverOfHeap,
	}
}

// fillHeap writes message i ten bytes at a time. A copy of constant length is a
// load and a store or two when it is written as the assignment of an array.
func fillHeap(p *arena.Heap, i int) {
	n, src := message(i)
	for k := range n / piece {
		*(*[piece]byte)(p.Writable(piece)) = *(*[piece]byte)(src[k : k+piece])
	}
}

func fillCopyHeap(p *arena.Heap, i int) {
	n, src := message(i)
	for k := range n / piece {
		copy(p.Writable(piece), src[k:k+piece])
	}
}

func fillWholeHeap(p *arena.Heap, i int) {
	n, src := message(i)
	copy(p.Writable(n), src[:n])
}

func tenOfHeap(s Shape) Work {
	p := openHeap(s)
	return Work{func(n int) {
		for i := range n {
			fillHeap(p, i)
			frame := p.Take()
			frame.Release()
		}
	}, p}
}

func tenCopyOfHeap(s Shape) Work {
	p := openHeap(s)
	return Work{func(n int) {
		for i := range n {
			fillCopyHeap(p, i)
			frame := p.Take()
			frame.Release()
		}
	}, p}
}

func wholeOfHeap(s Shape) Work {
	p := openHeap(s)
	return Work{func(n int) {
		for i := range n {
			fillWholeHeap(p, i)
			frame := p.Take()
			frame.Release()
		}
	}, p}
}

func slotsOfHeap(s Shape) Work {
	p := openHeap(s)
	held := make([]arena.Slice, s.Live)
	for i := range held {
		p.Writable(slotSize)[0] = 1
		held[i] = p.Take()
	}
	if s.Order == Newest {
		held[s.Live-1].Release()
		return Work{func(n int) {
			for i := range n {
				p.Writable(slotSize)[0] = byte(i)
				frame := p.Take()
				frame.Release()
			}
		}, p}
	}
	order := slotOrder(s)
	return Work{func(n int) {
		for i := range n {
			at := order[i%places]
			held[at].Release()
			p.Writable(slotSize)[0] = byte(i)
			held[at] = p.Take()
		}
	}, p}
}

func keepHeap(h *holding, frame arena.Slice) {
	time.Sleep(hold)
	look(frame.Bytes())
	frame.Release()
	h.end()
}

func apartOfHeap(s Shape) Work {
	p, h := openHeap(s), newHolding(holders)
	return Work{func(n int) {
		for i := range n {
			h.begin()
			fillHeap(p, i)
			go keepHeap(h, p.Take())
		}
		h.wait()
	}, p}
}

func pairsOfHeap(s Shape) Work {
	p, h := openHeap(s), newHolding(2)
	return Work{func(n int) {
		for i := range n {
			h.begin()
			fillHeap(p, i)
			go keepHeap(h, p.Take())
			if i%2 == 1 {
				h.wait()
			}
		}
		h.wait()
	}, p}
}

func deliverOfHeap(s Shape, n int, show func(i int, frame []byte)) {
	p := openHeap(s)
	held := make([]arena.Slice, s.Live)
	for i := range n + s.Live {
		at := i % s.Live
		if i >= s.Live {
			show(i-s.Live, held[at].Bytes())
			held[at].Release()
		}
		if i >= n {
			continue
		}
		switch i % 3 {
		case 0:
			fillHeap(p, i)
		case 1:
			fillCopyHeap(p, i)
		case 2:
			fillWholeHeap(p, i)
		}
		held[at] = p.Take()
	}
}
