package bench

import (
	"sync"

	"github.com/millrace-io/millrace/arena"
)

const (
	// framesHeld is how many frames are on their way at a time: each is released when so many others have been taken.
	framesHeld = 16
	// longestFrame is the longest of the frames; a Pool has room for all that are held, and as many slots twice over.
	longestFrame = 16 << 10
	arenaSize    = 2 * framesHeld * longestFrame
	arenaSlots   = 64
)

// frameSource is what frames are made of. It is not on the heap; see sequence.
var frameSource = func() (b [longestFrame + framesHeld]byte) {
	x := uint64(1)<<40 + 7
	for i := range b {
		x = xorshift(x)
		b[i] = byte(x >> 24)
	}
	return b
}()

// payload is that of frame i. Neighbours differ.
func payload(i, size int) []byte {
	at := i % framesHeld
	return frameSource[at : at+size]
}

func arenaContests() []contest {
	return []contest{
		frameContest("32", "Frames of 32 bytes, 16 held", 32),
		frameContest("1024", "Frames of 1 KiB, 16 held", 1<<10),
		frameContest("16384", "Frames of 16 KiB, 16 held", longestFrame),
	}
}

func frameContest(key, what string, size int) contest {
	return contest{key, what, "frame", []contender{
		quick("pool", "arena.Pool, Take + Release", arenaFrames(size, new(look))),
		quick("make", "make + copy", madeFrames(size, new(look))),
		quick("syncpool", "sync.Pool, Get + copy + Put", pooledFrames(size, new(look))),
	}}
}

// A frame is looked at when it is let go: on the way it may have been anywhere.

func arenaFrames(size int, l *look) func(n int) {
	pool := arena.NewPool(arenaSize, arena.Slots(arenaSlots))
	var held [framesHeld]arena.Slice
	next := 0 // frame; goes on from call to call, like the held ones
	return func(n int) {
		for range n {
			at := next % framesHeld
			if next >= framesHeld {
				l.at(0, held[at].Bytes())
				held[at].Release()
			}
			copy(pool.Writable(size), payload(next, size))
			held[at] = pool.Take()
			next++
		}
	}
}

func madeFrames(size int, l *look) func(n int) {
	var held [framesHeld][]byte
	next := 0
	return func(n int) {
		for range n {
			at := next % framesHeld
			if next >= framesHeld {
				l.at(0, held[at])
			}
			frame := make([]byte, size)
			copy(frame, payload(next, size))
			held[at] = frame
			next++
		}
	}
}

func pooledFrames(size int, l *look) func(n int) {
	pool := sync.Pool{New: func() any {
		b := make([]byte, longestFrame)
		return &b
	}}
	var held [framesHeld]*[]byte
	next := 0
	return func(n int) {
		for range n {
			at := next % framesHeld
			if next >= framesHeld {
				l.at(0, (*held[at])[:size])
				pool.Put(held[at])
			}
			b := pool.Get().(*[]byte)
			copy((*b)[:size], payload(next, size))
			held[at] = b
			next++
		}
	}
}
