package stackbuf

import "sync"

// scratchSize limits, in bytes, one Read of a source while the Buffer has no room.
const scratchSize = 4 << 10

// A scratch is memory that a method passes to a source or a target instead of the array in the
// value. It is needed if only the interface of the source or target is known. The compiler must
// assume that such a source or target keeps its argument. If it were passed the array, the compiler
// would move every Buffer to the heap.
type scratch [scratchSize]byte

var scratches = sync.Pool{New: func() any { return new(scratch) }}

func lendScratch() *scratch { return scratches.Get().(*scratch) }

// release ends the loan. At most the first n bytes were written to. release clears them, so that
// one Buffer never shows another's contents, even if a source returns a greater count than it has
// written. With -tags invariants, release overwrites s. If a slice of s is used too late, its
// garbage then shows the mistake.
func (s *scratch) release(n int) {
	clear(s[:n])
	poison(s[:])
	scratches.Put(s)
}
