package arena

import "github.com/millrace-io/millrace/arena"

//go:generate sh generate

// Work does something n times, in a buffer of its own.
type Work struct {
	Do     func(n int)
	buffer any
}

// works are what one contender is asked to do. Not all of them do everything.
type works struct {
	ten     func(Shape) Work // messages written ten bytes at a time
	tenCopy func(Shape) Work // the same by copy
	whole   func(Shape) Work // messages written at once
	slots   func(Shape) Work // frames of which nothing but the first byte is written
	apart   func(Shape) Work // messages given to goroutines
	pairs   func(Shape) Work // the same two by two

	// deliver makes messages, a third in each of the first three ways, and
	// shows each frame just before it is released.
	deliver func(s Shape, n int, show func(i int, frame []byte))
}

func openPool(s Shape) *arena.Pool { return arena.NewPool(s.Capacity, arena.Slots(s.Slots)) }
func openHeap(Shape) *arena.Heap   { return new(arena.Heap) }

// onHeap returns how many frames have been taken that had no room in their
// Pool's memory.
func onHeap(buffer any) uint64 {
	if p, ok := buffer.(*arena.Pool); ok {
		return p.Stats().Modes[arena.Alloc].Frames
	}
	return 0
}
