package stackbuf

import "sync"

// scratchSize limits, in bytes, one Read of a source while the Buffer has no room.
const scratchSize = 4 << 10

// A scratch is memory that is passed, instead of the array in the value, to a source or a target of
// which only the interface is known. The compiler must assume that such a source or target keeps
// its argument, and would move every Buffer to the heap.
type scratch [scratchSize]byte

var scratches = sync.Pool{New: func() any { return new(scratch) }}

func lendScratch() *scratch { return scratches.Get().(*scratch) }

// release ends the loan. At most the first n bytes were written to. They are cleared, so that one
// Buffer never shows another's contents, even if a source returns a greater count than it has
// written. With -tags invariants, s is overwritten, so that a slice of s that is used too late
// shows garbage.
func (s *scratch) release(n int) {
	clear(s[:n])
	poison(s[:])
	scratches.Put(s)
}
