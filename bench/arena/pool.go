package arena

import (
	"time"

	"github.com/millrace-io/millrace/arena"
)

func ofPool() works {
	return works{
		ten:     tenOfPool,
		tenCopy: tenCopyOfPool,
		whole:   wholeOfPool,
		slots:   slotsOfPool,
		apart:   apartOfPool,
		pairs:   pairsOfPool,
		deliver: deliverOfPool,
	}
}

// fillPool writes message i ten bytes at a time. A copy of constant length is a
// load and a store or two when it is written as the assignment of an array.
func fillPool(p *arena.Pool, i int) {
	n, src := message(i)
	for k := range n / piece {
		*(*[piece]byte)(p.Writable(piece)) = *(*[piece]byte)(src[k : k+piece])
	}
}

func fillCopyPool(p *arena.Pool, i int) {
	n, src := message(i)
	for k := range n / piece {
		copy(p.Writable(piece), src[k:k+piece])
	}
}

func fillWholePool(p *arena.Pool, i int) {
	n, src := message(i)
	copy(p.Writable(n), src[:n])
}

func tenOfPool(s Shape) Work {
	p := openPool(s)
	return Work{func(n int) {
		for i := range n {
			fillPool(p, i)
			frame := p.Take()
			frame.Release()
		}
	}, p}
}

func tenCopyOfPool(s Shape) Work {
	p := openPool(s)
	return Work{func(n int) {
		for i := range n {
			fillCopyPool(p, i)
			frame := p.Take()
			frame.Release()
		}
	}, p}
}

func wholeOfPool(s Shape) Work {
	p := openPool(s)
	return Work{func(n int) {
		for i := range n {
			fillWholePool(p, i)
			frame := p.Take()
			frame.Release()
		}
	}, p}
}

func slotsOfPool(s Shape) Work {
	p := openPool(s)
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

func keepPool(h *holding, frame arena.Slice) {
	time.Sleep(hold)
	look(frame.Bytes())
	frame.Release()
	h.end()
}

func apartOfPool(s Shape) Work {
	p, h := openPool(s), newHolding(holders)
	return Work{func(n int) {
		for i := range n {
			h.begin()
			fillPool(p, i)
			go keepPool(h, p.Take())
		}
		h.wait()
	}, p}
}

func pairsOfPool(s Shape) Work {
	p, h := openPool(s), newHolding(2)
	return Work{func(n int) {
		for i := range n {
			h.begin()
			fillPool(p, i)
			go keepPool(h, p.Take())
			if i%2 == 1 {
				h.wait()
			}
		}
		h.wait()
	}, p}
}

func deliverOfPool(s Shape, n int, show func(i int, frame []byte)) {
	p := openPool(s)
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
			fillPool(p, i)
		case 1:
			fillCopyPool(p, i)
		case 2:
			fillWholePool(p, i)
		}
		held[at] = p.Take()
	}
}
