// Code generated from pool.go; DO NOT EDIT.

package arena

import (
	"time"
)

func ofMade() works {
	return works{
		ten:     tenOfMade,
		tenCopy: tenCopyOfMade,
		whole:   wholeOfMade,
		slots:   slotsOfMade,
		apart:   apartOfMade,
		pairs:   pairsOfMade,
		deliver: deliverOfMade,
	}
}

// fillMade writes message i ten bytes at a time. A copy of constant length is a
// load and a store or two when it is written as the assignment of an array.
func fillMade(p *made, i int) {
	n, src := message(i)
	for k := range n / piece {
		*(*[piece]byte)(p.Writable(piece)) = *(*[piece]byte)(src[k : k+piece])
	}
}

func fillCopyMade(p *made, i int) {
	n, src := message(i)
	for k := range n / piece {
		copy(p.Writable(piece), src[k:k+piece])
	}
}

func fillWholeMade(p *made, i int) {
	n, src := message(i)
	copy(p.Writable(n), src[:n])
}

func tenOfMade(s Shape) Work {
	p := openMade(s)
	return Work{func(n int) {
		for i := range n {
			fillMade(p, i)
			frame := p.Take()
			frame.Release()
		}
	}, p}
}

func tenCopyOfMade(s Shape) Work {
	p := openMade(s)
	return Work{func(n int) {
		for i := range n {
			fillCopyMade(p, i)
			frame := p.Take()
			frame.Release()
		}
	}, p}
}

func wholeOfMade(s Shape) Work {
	p := openMade(s)
	return Work{func(n int) {
		for i := range n {
			fillWholeMade(p, i)
			frame := p.Take()
			frame.Release()
		}
	}, p}
}

func slotsOfMade(s Shape) Work {
	p := openMade(s)
	held := make([]madeSlice, s.Live)
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

func keepMade(h *holding, frame madeSlice) {
	time.Sleep(hold)
	look(frame.Bytes())
	frame.Release()
	h.end()
}

func apartOfMade(s Shape) Work {
	p, h := openMade(s), newHolding(holders)
	return Work{func(n int) {
		for i := range n {
			h.begin()
			fillMade(p, i)
			go keepMade(h, p.Take())
		}
		h.wait()
	}, p}
}

func pairsOfMade(s Shape) Work {
	p, h := openMade(s), newHolding(2)
	return Work{func(n int) {
		for i := range n {
			h.begin()
			fillMade(p, i)
			go keepMade(h, p.Take())
			if i%2 == 1 {
				h.wait()
			}
		}
		h.wait()
	}, p}
}

func deliverOfMade(s Shape, n int, show func(i int, frame []byte)) {
	p := openMade(s)
	held := make([]madeSlice, s.Live)
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
			fillMade(p, i)
		case 1:
			fillCopyMade(p, i)
		case 2:
			fillWholeMade(p, i)
		}
		held[at] = p.Take()
	}
}
