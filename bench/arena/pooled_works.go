// Code generated from pool.go; DO NOT EDIT.

package arena

import (
	"time"
)

func ofPooled() works {
	return works{
		ten:     tenOfPooled,
		tenCopy: tenCopyOfPooled,
		whole:   wholeOfPooled,
		slots:   slotsOfPooled,
		apart:   apartOfPooled,
		pairs:   pairsOfPooled,
		deliver: deliverOfPooled,
	}
}

// fillPooled writes message i ten bytes at a time. A copy of constant length is a
// load and a store or two when it is written as the assignment of an array.
func fillPooled(p *pooled, i int) {
	n, src := message(i)
	for k := range n / piece {
		*(*[piece]byte)(p.Writable(piece)) = *(*[piece]byte)(src[k : k+piece])
	}
}

func fillCopyPooled(p *pooled, i int) {
	n, src := message(i)
	for k := range n / piece {
		copy(p.Writable(piece), src[k:k+piece])
	}
}

func fillWholePooled(p *pooled, i int) {
	n, src := message(i)
	copy(p.Writable(n), src[:n])
}

func tenOfPooled(s Shape) Work {
	p := openPooled(s)
	return Work{func(n int) {
		for i := range n {
			fillPooled(p, i)
			frame := p.Take()
			frame.Release()
		}
	}, p}
}

func tenCopyOfPooled(s Shape) Work {
	p := openPooled(s)
	return Work{func(n int) {
		for i := range n {
			fillCopyPooled(p, i)
			frame := p.Take()
			frame.Release()
		}
	}, p}
}

func wholeOfPooled(s Shape) Work {
	p := openPooled(s)
	return Work{func(n int) {
		for i := range n {
			fillWholePooled(p, i)
			frame := p.Take()
			frame.Release()
		}
	}, p}
}

func slotsOfPooled(s Shape) Work {
	p := openPooled(s)
	held := make([]pooledSlice, s.Live)
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

func keepPooled(h *holding, frame pooledSlice) {
	time.Sleep(hold)
	look(frame.Bytes())
	frame.Release()
	h.end()
}

func apartOfPooled(s Shape) Work {
	p, h := openPooled(s), newHolding(holders)
	return Work{func(n int) {
		for i := range n {
			h.begin()
			fillPooled(p, i)
			go keepPooled(h, p.Take())
		}
		h.wait()
	}, p}
}

func pairsOfPooled(s Shape) Work {
	p, h := openPooled(s), newHolding(2)
	return Work{func(n int) {
		for i := range n {
			h.begin()
			fillPooled(p, i)
			go keepPooled(h, p.Take())
			if i%2 == 1 {
				h.wait()
			}
		}
		h.wait()
	}, p}
}

func deliverOfPooled(s Shape, n int, show func(i int, frame []byte)) {
	p := openPooled(s)
	held := make([]pooledSlice, s.Live)
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
			fillPooled(p, i)
		case 1:
			fillCopyPooled(p, i)
		case 2:
			fillWholePooled(p, i)
		}
		held[at] = p.Take()
	}
}
