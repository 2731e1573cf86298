// Code generated from pool.go; DO NOT EDIT.

package arena

import (
	"time"
)

func ofMapped() works {
	return works{
		ten:     tenOfMapped,
		tenCopy: tenCopyOfMapped,
		whole:   wholeOfMapped,
		slots:   slotsOfMapped,
		apart:   apartOfMapped,
		pairs:   pairsOfMapped,
		deliver: deliverOfMapped,
	}
}

// fillMapped writes message i ten bytes at a time. A copy of constant length is a
// load and a store or two when it is written as the assignment of an array.
func fillMapped(p *mapped, i int) {
	n, src := message(i)
	for k := range n / piece {
		*(*[piece]byte)(p.Writable(piece)) = *(*[piece]byte)(src[k : k+piece])
	}
}

func fillCopyMapped(p *mapped, i int) {
	n, src := message(i)
	for k := range n / piece {
		copy(p.Writable(piece), src[k:k+piece])
	}
}

func fillWholeMapped(p *mapped, i int) {
	n, src := message(i)
	copy(p.Writable(n), src[:n])
}

func tenOfMapped(s Shape) Work {
	p := openMapped(s)
	return Work{func(n int) {
		for i := range n {
			fillMapped(p, i)
			frame := p.Take()
			frame.Release()
		}
	}, p}
}

func tenCopyOfMapped(s Shape) Work {
	p := openMapped(s)
	return Work{func(n int) {
		for i := range n {
			fillCopyMapped(p, i)
			frame := p.Take()
			frame.Release()
		}
	}, p}
}

func wholeOfMapped(s Shape) Work {
	p := openMapped(s)
	return Work{func(n int) {
		for i := range n {
			fillWholeMapped(p, i)
			frame := p.Take()
			frame.Release()
		}
	}, p}
}

func slotsOfMapped(s Shape) Work {
	p := openMapped(s)
	held := make([]mappedSlice, s.Live)
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

func keepMapped(h *holding, frame mappedSlice) {
	time.Sleep(hold)
	look(frame.Bytes())
	frame.Release()
	h.end()
}

func apartOfMapped(s Shape) Work {
	p, h := openMapped(s), newHolding(holders)
	return Work{func(n int) {
		for i := range n {
			h.begin()
			fillMapped(p, i)
			go keepMapped(h, p.Take())
		}
		h.wait()
	}, p}
}

func pairsOfMapped(s Shape) Work {
	p, h := openMapped(s), newHolding(2)
	return Work{func(n int) {
		for i := range n {
			h.begin()
			fillMapped(p, i)
			go keepMapped(h, p.Take())
			if i%2 == 1 {
				h.wait()
			}
		}
		h.wait()
	}, p}
}

func deliverOfMapped(s Shape, n int, show func(i int, frame []byte)) {
	p := openMapped(s)
	held := make([]mappedSlice, s.Live)
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
			fillMapped(p, i)
		case 1:
			fillCopyMapped(p, i)
		case 2:
			fillWholeMapped(p, i)
		}
		held[at] = p.Take()
	}
}
