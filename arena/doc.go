// Package arena holds frames in memory that is allocated once. One goroutine writes a frame and
// hands it, as an owned [Slice], to any goroutine. Slices are released in any order, and their
// memory is used again.
//
//	pool := arena.NewPool(1 << 20)
//	copy(pool.Writable(len(header)), header) // a frame is written in any number of steps
//	copy(pool.Writable(len(payload)), payload)
//	frame := pool.Take()                     // contiguous, and the receiver's from now on
//	go func() {
//		defer frame.Release()
//		handle(frame.Bytes())
//	}()
//
// A [Pool] places frames one behind the other (back mode). At the end of its memory it begins again
// in front of, or between, frames that are still held (front mode). A frame that has no room is
// allocated (alloc mode), with two allocations. The Pool returns to its memory with the first frame
// that fits there.
//
// A [Heap] has the same methods and allocates each frame. [Buffer] is the interface of both.
package arena
