package stackbuf

import "sync"

// scratchSize limits one Read of a source while the Buffer has no room.
const scratchSize = 4 << 10

// A scratch is the memory that a source or a target gets instead of the array in the value, if only
// its interface is known. The compiler must assume that it keeps its argument, and would move every
// Buffer to the heap.
type scratch [scratchSize]byte

var scratches = sync.Pool{New: func() any { return new(scratch) }}

func lendScratch() *scratch { return scratches.Get().(*scratch) }

// release ends the loan. At most the first n bytes were written to. They are cleared, so that a
// source that returns a greater count than it has written does not show one Buffer another's
// contents. With -tags invariants, s is overwritten, so that a slice of it that was kept shows
// garbage.
func (s *scratch) release(n int) {
	clear(s[:n])
	poison(s[:])
	scratches.Put(s)
}
