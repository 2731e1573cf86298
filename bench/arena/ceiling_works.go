// Code generated from pool.go; DO NOT EDIT.

package arena

import (
	"time"
)

func ofCeiling() works {
	return works{
		ten:     tenOfCeiling,
		tenCopy: tenCopyOfCeiling,
		whole:   wholeOfCeiling,
		slots:   slotsOfCeiling,
		apart:   apartOfCeiling,
		pairs:   pairsOfCeiling,
		deliver: deliverOfCeiling,
	}
}

// fillCeiling writes message i ten bytes at a time. A copy of constant length is a
// load and a store or two when it is written as the assignment of an array.
func fillCeiling(p *ceiling, i int) {
	n, src := message(i)
	for k := range n / piece {
		*(*[piece]byte)(p.Writable(piece)) = *(*[piece]byte)(src[k : k+piece])
	}
}

func fillCopyCeiling(p *ceiling, i int) {
	n, src := message(i)
	for k := range n / piece {
		copy(p.Writable(piece), src[k:k+piece])
	}
}

func fillWholeCeiling(p *ceiling, i int) {
	n, src := message(i)
	copy(p.Writable(n), src[:n])
}

func tenOfCeiling(s Shape) Work {
	p := openCeiling(s)
	return Work{func(n int) {
		for i := range n {
			fillCeiling(p, i)
			frame := p.Take()
			frame.Release()
		}
	}, p}
}

func tenCopyOfCeiling(s Shape) Work {
	p := openCeiling(s)
	return Work{func(n int) {
		for i := range n {
			fillCopyCeiling(p, i)
			frame := p.Take()
			frame.Release()
		}
	}, p}
}

func wholeOfCeiling(s Shape) Work {
	p := openCeiling(s)
	return Work{func(n int) {
		for i := range n {
			fillWholeCeiling(p, i)
			frame := p.Take()
			frame.Release()
		}
	}, p}
}

func slotsOfCeiling(s Shape) Work {
	p := openCeiling(s)
	held := make([]ceilingSlice, s.Live)
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

func keepCeiling(h *holding, frame ceilingSlice) {
	time.Sleep(hold)
	look(frame.Bytes())
	frame.Release()
	h.end()
}

func apartOfCeiling(s Shape) Work {
	p, h := openCeiling(s), newHolding(holders)
	return Work{func(n int) {
		for i := range n {
			h.begin()
			fillCeiling(p, i)
			go keepCeiling(h, p.Take())
		}
		h.wait()
	}, p}
}

func pairsOfCeiling(s Shape) Work {
	p, h := openCeiling(s), newHolding(2)
	return Work{func(n int) {
		for i := range n {
			h.begin()
			fillCeiling(p, i)
			go keepCeiling(h, p.Take())
			if i%2 == 1 {
				h.wait()
			}
		}
		h.wait()
	}, p}
}

func deliverOfCeiling(s Shape, n int, show func(i int, frame []byte)) {
	p := openCeiling(s)
	held := make([]ceilingSlice, s.Live)
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
			fillCeiling(p, i)
		case 1:
			fillCopyCeiling(p, i)
		case 2:
			fillWholeCeiling(p, i)
		}
		held[at] = p.Take()
	}
}
