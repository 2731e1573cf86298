package arena

import "math/bits"

// A slot is the place of one frame that was taken. Slots are linked in the order of their memory, in a ring that the
// edge closes: its to is where memory begins, its from where it ends, and it is never released.
//
// Invariants of a slot that is linked, with n = next:
//
//	from < to ≤ n.from, and data are memory[from:to]
//	state = gen while the frame is held, and gen + 1 from its release on
//
// It fills a cache line, so that no two goroutines that release neighbours wait for each other.
type slot struct {
	loan              // what its Slice and the Pool both know
	gen        uint32 // of the frame that it was last taken for
	from, to   uint32 // the frame is memory[from:to]
	frames     uint32 // how many had been taken before
	prev, next int32
}

// released says whether the frame has come back. The slot stays linked until the Pool needs it or what is around it.
func (s *slot) released() bool { return s.state.Load() != s.gen }

// slotSet is a set of slots by their number.
type slotSet [maxSlots / 64]uint64

func (s *slotSet) add(i int32)    { s[i/64] |= 1 << (i % 64) }
func (s *slotSet) remove(i int32) { s[i/64] &^= 1 << (i % 64) }

// none stands for a slot that there is not.
const none = -1

// above returns the lowest member ≥ i, or none.
func (s *slotSet) above(i int32) int32 {
	if i >= maxSlots {
		return none
	}
	w := i / 64
	word := s[w] &^ (1<<(i%64) - 1)
	for word == 0 {
		if w++; w == int32(len(s)) {
			return none
		}
		word = s[w]
	}
	return w*64 + int32(bits.TrailingZeros64(word))
}

// below returns the highest member < i, or none.
func (s *slotSet) below(i int32) int32 {
	w := i / 64
	var word uint64
	if w < int32(len(s)) {
		word = s[w] & (1<<(i%64) - 1)
	}
	for word == 0 {
		if w--; w < 0 {
			return none
		}
		word = s[w]
	}
	return w*64 + 63 - int32(bits.LeadingZeros64(word))
}
