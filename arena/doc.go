// Package arena keeps frames in memory that is allocated once. One goroutine writes a frame and
// passes it, as an owned [Slice], to any goroutine. Slices may be released in any order, and the
// Pool uses their memory again.
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
// A [Pool] places frames one after the other (back mode). At the end of its memory, it returns to
// the memory of released frames. New frames are then before, or between, frames that have not been
// released (front mode). If there is no room for a frame, the Pool allocates the frame on the heap
// (alloc mode), with two allocations. The first later frame that fits is in the Pool's memory
// again.
//
// A [Heap] has the same methods and allocates each frame. [Buffer] is the interface of both.
package arena
