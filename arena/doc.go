// Package arena holds frames in memory that is allocated once. One goroutine writes a frame and
// passes it, as an owned [Slice], to any goroutine. Slices are released in any order, and their
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
// A [Pool] places frames one after the other (back mode). At the end of its memory it starts again
// before, or between, frames that are still held (front mode). A frame for which there is no room
// is allocated on the heap (alloc mode), with two allocations. The Pool returns to its memory with
// the first frame that fits there.
//
// A [Heap] has the same methods and allocates each frame. [Buffer] is the interface of both.
package arena
