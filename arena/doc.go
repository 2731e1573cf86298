// Package arena keeps frames in memory that is allocated once. One goroutine writes a frame into a
// [Pool], takes the frame as a [Slice], and may pass the Slice to any goroutine, which then owns
// it. Slices may be released in any order, and the Pool then uses their memory again.
//
//	pool := arena.NewPool(1 << 20)
//	copy(pool.Writable(len(header)), header) // a frame is written in any number of steps
//	copy(pool.Writable(len(payload)), payload)
//	frame := pool.Take()                     // contiguous; its owner must release it
//	go func() {
//		defer frame.Release()
//		handle(frame.Bytes())
//	}()
//
// A Pool places frames one after the other (back mode). At the end of its memory, the Pool returns
// to the memory of released frames. New frames are then before, or between, frames that have not
// been released (front mode). If there is no room for a frame, the Pool allocates the frame on the
// heap (alloc mode), with two allocations. The next frame that fits is placed in the Pool's memory
// again.
//
// A [Heap] allocates every frame on the heap. [Buffer] is the interface that Pool and Heap
// implement.
package arena
