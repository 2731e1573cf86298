package arena

import "time"

// ofSized is who knows the length of a frame before it comes, allocates it and
// fills it. Frames that are written at once are the same to who does not know.
func ofSized() works {
	return works{
		ten:     tenOfSized,
		tenCopy: tenAppendOfSized,
		apart:   apartOfSized,
		pairs:   pairsOfSized,
		deliver: deliverOfSized,
	}
}

func fillSized(i int) []byte {
	n, src := message(i)
	frame := make([]byte, n/piece*piece)
	for k := range n / piece {
		*(*[piece]byte)(frame[k*piece:]) = *(*[piece]byte)(src[k : k+piece])
	}
	return frame
}

func fillAppendSized(i int) []byte {
	n, src := message(i)
	frame := make([]byte, 0, n)
	for k := range n / piece {
		frame = append(frame, src[k:k+piece]...)
	}
	return frame
}

// lastFrame keeps frames from being found out to be of no use.
var lastFrame []byte

func tenOfSized(Shape) Work {
	return Work{func(n int) {
		for i := range n {
			lastFrame = fillSized(i)
		}
	}, nil}
}

func tenAppendOfSized(Shape) Work {
	return Work{func(n int) {
		for i := range n {
			lastFrame = fillAppendSized(i)
		}
	}, nil}
}

func keepSized(h *holding, frame []byte) {
	time.Sleep(hold)
	look(frame)
	h.end()
}

func apartOfSized(Shape) Work {
	h := newHolding(holders)
	return Work{func(n int) {
		for i := range n {
			h.begin()
			go keepSized(h, fillSized(i))
		}
		h.wait()
	}, nil}
}

func pairsOfSized(Shape) Work {
	h := newHolding(2)
	return Work{func(n int) {
		for i := range n {
			h.begin()
			go keepSized(h, fillSized(i))
			if i%2 == 1 {
				h.wait()
			}
		}
		h.wait()
	}, nil}
}

func deliverOfSized(_ Shape, n int, show func(i int, frame []byte)) {
	for i := range n {
		switch i % 3 {
		case 0:
			show(i, fillSized(i))
		case 1:
			show(i, fillAppendSized(i))
		case 2:
			length, src := message(i)
			show(i, append([]byte(nil), src[:length]...))
		}
	}
}
