package stackbuf

import "sync"

// scratchSize is the maximum number of bytes that ReadFrom reads at a time if the Buffer has no
// room.
const scratchSize = 4 << 10

// A scratch is memory that a Buffer passes to an io.Reader or io.Writer instead of its array. The
// compiler must assume that an interface method keeps its argument. If the argument were the array,
// the compiler would move every Buffer to the heap.
type scratch [scratchSize]byte

var scratches = sync.Pool{New: func() any { return new(scratch) }}

func lendScratch() *scratch { return scratches.Get().(*scratch) }

// release returns s for reuse, and clears the n bytes that may have been written. The contents of
// one Buffer therefore never reach another Buffer.
func (s *scratch) release(n int) {
	clear(s[:n])
	poison(s[:])
	scratches.Put(s)
}
