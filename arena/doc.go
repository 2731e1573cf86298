// Package arena holds frames that travel: one goroutine fills them into memory that was allocated once, and hands each
// of them, as an owned [Slice], to whoever works on it, on any goroutine. Slices are released in any order, and the
// memory is used again.
//
//	pool := arena.NewPool(1 << 20)
//	copy(pool.Writable(len(header)), header) // a frame is written in as many steps as it arrives in
//	copy(pool.Writable(len(payload)), payload)
//	frame := pool.Take()                     // contiguous, and the receiver's from now on
//	go func() {
//		defer frame.Release()
//		handle(frame.Bytes())
//	}()
//
// A [Pool] places frames one behind the other (back mode). Where the end of its memory is reached, it places them in
// front of those that are still held, or between them (front mode). When nothing is free for a frame, that frame goes
// to the heap (alloc mode), which costs two allocations and nothing else. The Pool returns to its memory with the first
// frame that fits there.
//
// A [Heap] has the same methods and no memory of its own. [Buffer] is what both have in common.
package arena
