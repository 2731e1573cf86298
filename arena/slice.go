package arena

import (
	"sync/atomic"
	"time"
)

// A Slice is a frame that somebody owns: contiguous bytes that nobody else reads or writes. The owner ends its life with
// Release, once, on any goroutine, or hands it on. The zero Slice is empty, and releasing it does nothing.
//
// A Slice is a value of 16 bytes; copying it moves it. A copy that is used after another copy was released panics, and
// so does its Release: in every build, whether the frame is in a Pool's memory or on the heap. (A Pool's slot is told from
// itself for 2³² frames.)
//
// Invariants, unless it is empty:
//
//	loan.state = gen until it is released, and never again
//	len(loan.data) > 0
type Slice struct {
	loan *loan
	gen  uint32
}

// A loan is what a Slice shares with the Pool that it came from. Its data do not change while it lasts.
type loan struct {
	state atomic.Uint32 // one more with each release
	heap  bool          // data are not a Pool's memory
	due   int64         // when it should end, in Unix nanoseconds; 0: at any time
	data  []byte
}

// Bytes returns the frame, to read and to write. It is valid until s is released, or moved by Promote or PromoteIfDue.
func (s *Slice) Bytes() []byte {
	l := s.loan
	if l == nil {
		return nil
	}
	if l.state.Load() != s.gen {
		panic("arena: Slice used after Release")
	}
	return l.data
}

// Len returns the length in bytes.
func (s *Slice) Len() int { return len(s.Bytes()) }

// Release gives the memory back and leaves s empty. It panics when a copy of s was released before.
func (s *Slice) Release() {
	l := s.loan
	if l == nil {
		return
	}
	if invariants && l.state.Load() == s.gen {
		poison(l.data)
	}
	if !l.state.CompareAndSwap(s.gen, s.gen+1) {
		panic("arena: Slice released twice")
	}
	s.loan = nil
}

// Promote moves the frame out of its Pool's memory to the heap, with one copy, so that a frame that is held for long does
// not keep the Pool from using what is around it. The Slice stays the caller's; what Bytes returned before is no longer
// valid. Promote does nothing if the frame is on the heap.
func (s *Slice) Promote() {
	data := s.Bytes()
	if s.loan == nil || s.loan.heap {
		return
	}
	moved := onHeap(append([]byte(nil), data...))
	s.Release()
	*s = moved
}

// PromoteIfDue is [Slice.Promote] for a frame that has been held for longer than its Pool's [PromoteAfter], and reports
// whether it was. It is for whoever holds frames to call now and then: a Pool cannot move what somebody may be reading.
func (s *Slice) PromoteIfDue() bool {
	if s.Len() == 0 || s.loan.due == 0 || time.Now().UnixNano() < s.loan.due {
		return false
	}
	s.Promote()
	return true
}

// onHeap makes a Slice of data, which has no other owner.
func onHeap(data []byte) Slice {
	if len(data) == 0 {
		return Slice{}
	}
	return Slice{loan: &loan{heap: true, data: data}}
}
