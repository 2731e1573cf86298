package stackbuf

import "sync"

// scratchSize is the maximum number of bytes that ReadFrom reads at a time if the Buffer has no
// room.
const scratchSize = 4 << 10

// A scratch is memory that a method passes to an io.Reader or io.Writer instead of the array in the
// Buffer. The compiler must assume that an interface method keeps its argument. If the argument
// were the array, the compiler would move every Buffer to the heap.
type scratch [scratchSize]byte

var scratches = sync.Pool{New: func() any { return new(scratch) }}

func lendScratch() *scratch { return scratches.Get().(*scratch) }

// release returns s for reuse. The caller has written to at most the first n bytes. release clears
// them, so that the contents of one Buffer never reach another, even if a source returns a greater
// count than it has written. With -tags invariants, it overwrites all of s.
func (s *scratch) release(n int) {
	clear(s[:n])
	poison(s[:])
	scratches.Put(s)
}
