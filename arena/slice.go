package arena

import (
	"bytes"
	"math"
	"sync/atomic"
	"time"
)

// A Slice is one frame with one owner: contiguous bytes that only the owner reads and writes. The
// owner calls Release once, on any goroutine, or passes the Slice on. The zero Slice is empty, and
// releasing it does nothing.
//
// A Slice is a value of 16 bytes; copying it moves it. If one copy was released, using or releasing
// another copy panics in every build, whether the frame is in a Pool's memory or on the heap. (The
// check fails only after 2³² frames in the same slot of a Pool.)
type Slice struct {
	slot *slot
	gen  uint32

	// Invariants, unless the Slice is empty:
	//
	//	slot.state = gen until it is released, and never again
	//	len(slot.data) > 0
}

// A slot holds one frame that was taken. The slots in use are linked in the order of their memory.
// They form a ring that the Pool's edge closes. A released slot stays in the ring until the Pool
// needs the slot or the memory around it.
//
// A slot fills a cache line. Otherwise goroutines that release neighbouring slots would wait for
// each other.
type slot struct {
	state atomic.Uint32 // gen while the frame is held, gen+1 after its release
	gen   uint32        // generation of the frame; written by the Pool only
	due   int64         // when Promote may move the frame, in Unix nanoseconds; 0: at any time
	data  []byte        // the frame

	from       uint32 // offset of the frame in the Pool's memory
	taken      uint32 // number of frames that the Pool had handed out before
	prev, next *slot  // prev is not valid in the list of free slots

	// Invariants of a slot in the ring, unless the slot is the edge or next is the edge:
	//
	//	end() ≤ next.from
}

// never is the value of due for a frame on the heap.
const never = math.MaxInt64

// released reports whether the owner has released the frame.
func (s *slot) released() bool { return s.state.Load() != s.gen }

// end returns the offset of the frame's end in the Pool's memory.
func (s *slot) end() int { return int(s.from) + len(s.data) }

// onHeap returns a Slice of data, which must have no other owner.
func onHeap(data []byte) Slice {
	if len(data) == 0 {
		return Slice{}
	}
	return Slice{slot: &slot{due: never, data: data}}
}

// Bytes returns the frame, to read and to write. It is valid until s is released, or moved by
// Promote.
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

// Promote moves a frame that is due from its Pool's memory to the heap, with one copy, and reports
// whether it did. A frame that is held for long then no longer keeps the Pool from using the memory
// around it. A frame is due at once, or after the time that [PromoteAfter] sets. A frame on the
// heap is never due. The caller still owns s. Slices that Bytes returned earlier become invalid.
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
