package arena

import (
	"bytes"
	"math"
	"sync/atomic"
	"time"
)

// A Slice is a frame with one owner. Only the owner may read and write its bytes, which are
// contiguous. The owner calls Release once, on any goroutine, or passes the Slice on. The zero
// Slice is empty, and releasing it does nothing.
//
// A Slice is a value of 16 bytes. After the assignment t := s, only t may be used. After the
// release of t or s, using or releasing the other one panics. This check is reliable until the Pool
// has stored 2³² more frames in the same slot (see [Slots]).
type Slice struct {
	slot *slot
	gen  uint32

	// Invariants, unless the Slice is empty:
	//
	//	slot.state = gen until the Slice is released, and never again
	//	len(slot.data) > 0
}

// A slot holds one frame that Take returned. The slots in use form a ring, in the order of their
// frames in memory. A released slot stays in the ring until the Pool needs the slot or the memory
// around it.
//
// A slot fills a cache line. Otherwise, goroutines that release neighbouring slots would slow each
// other down.
type slot struct {
	state atomic.Uint32 // gen until the frame is released, then gen+1
	gen   uint32        // generation of the frame; written by the Pool only
	due   int64         // Unix nanoseconds from which Promote may move the frame; 0: any time
	data  []byte

	from       uint32 // offset of the frame in the Pool's memory
	taken      uint32 // number of frames that Take returned before this frame
	prev, next *slot  // prev is undefined in the list of free slots

	// Invariants of a slot in the ring, unless the slot is the edge or next is the edge:
	//
	//	end() ≤ next.from
}

// never is the due time of a frame on the heap, which Promote does not copy.
const never = math.MaxInt64

func (s *slot) released() bool { return s.state.Load() != s.gen }

func (s *slot) end() int { return int(s.from) + len(s.data) }

// onHeap returns a Slice for a frame on the heap. It takes ownership of data.
func onHeap(data []byte) Slice {
	if len(data) == 0 {
		return Slice{}
	}
	return Slice{slot: &slot{due: never, data: data}}
}

// Bytes returns the bytes of the frame, which the owner may read and write. They are valid until s
// is released or moved by Promote.
func (s *Slice) Bytes() []byte {
	if s.slot == nil {
		return nil
	}
	if s.slot.state.Load() != s.gen {
		panic("arena: Slice used after Release")
	}
	return s.slot.data
}

// Len returns the length in bytes.
func (s *Slice) Len() int { return len(s.Bytes()) }

// Release releases the memory and leaves s empty. It panics if a copy of s was released before.
func (s *Slice) Release() {
	if s.slot == nil {
		return
	}
	if invariants && s.slot.state.Load() == s.gen {
		poison(s.slot.data)
	}
	if !s.slot.state.CompareAndSwap(s.gen, s.gen+1) {
		panic("arena: Slice released twice")
	}
	s.slot = nil
}

// Promote copies the frame from its Pool's memory to the heap, and reports whether it did so. The
// Pool can then reuse the frame's old memory while the caller keeps s. Promote does nothing if the
// frame is already on the heap, or is younger than [PromoteAfter]. The caller still owns s. Byte
// slices that Bytes returned before become invalid if Promote moves the frame.
func (s *Slice) Promote() bool {
	data := s.Bytes()
	if len(data) == 0 || s.slot.due > 0 && time.Now().UnixNano() < s.slot.due {
		return false
	}
	moved := onHeap(bytes.Clone(data))
	s.Release()
	*s = moved
	return true
}
