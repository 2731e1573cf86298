package stackbuf

import "sync"

// scratchSize is what one look at a source gives at most while there is no better place for it.
const scratchSize = 4 << 10

// A scratch is what a source or a target that is known by its interface alone gets to see instead of the array in the
// value. The compiler has to assume that they keep what they are given, and would move every Buffer to the heap.
type scratch [scratchSize]byte

var scratches = sync.Pool{New: func() any { return new(scratch) }}

func lendScratch() *scratch { return scratches.Get().(*scratch) }

// release ends the loan, of which at most the first n bytes were written to: they are cleared, so that a source that
// returns a greater count than it has written does not show one Buffer another's contents. With -tags invariants, whoever kept a
// slice of s sees other bytes from now on.
func (s *scratch) release(n int) {
	clear(s[:n])
	poison(s[:])
	scratches.Put(s)
}
