package stackbuf

import "sync"

// scratchSize limits each read of ReadFrom if the Buffer has no room.
const scratchSize = 4 << 10

// A scratch is passed to an io.Reader or io.Writer instead of the array in the Buffer. The compiler
// must assume that an interface method keeps its argument. If that were the array, every Buffer
// would move to the heap.
type scratch [scratchSize]byte

var scratches = sync.Pool{New: func() any { return new(scratch) }}

func lendScratch() *scratch { return scratches.Get().(*scratch) }

// release returns s for reuse. The caller has written to at most the first n bytes. They are
// cleared, so that the contents of one Buffer never reach another, even if a source returns a
// greater count than it has written.
func (s *scratch) release(n int) {
	clear(s[:n])
	poison(s[:])
	scratches.Put(s)
}
