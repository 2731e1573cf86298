package arena

import (
	"fmt"
	"unsafe"
)

// Access to private parts for tests in package arena_test.

const (
	Invariants = invariants
	SliceSize  = unsafe.Sizeof(Slice{})
	SlotSize   = unsafe.Sizeof(slot{})
)

// PlaceOfSlice returns the offset of s in p's memory, or -1 if s is not in it.
func PlaceOfSlice(p *Pool, s Slice) int {
	for i := range p.slots {
		if s.slot == &p.slots[i] {
			return int(s.slot.from)
		}
	}
	return -1
}

// PlaceOf reports whether the current frame has a place, and its offset in p's memory: -1 on the
// heap.
func PlaceOf(p *Pool) (at int, placed bool) {
	if p.hasMemory() && p.mode != Alloc {
		return p.begin, true
	}
	return -1, p.hasMemory()
}

// Broken returns an error that names the invariant of Pool that p violates. Slices may be released
// at the same time.
func Broken(p *Pool) error {
	if err := p.frame.broken(); err != nil {
		return err
	}
	if !p.hasMemory() && (p.begin != p.end || p.start != 0) {
		return fmt.Errorf("between frames: [%d+%d, %d)", p.begin, p.start, p.end)
	}
	if inMemory := len(p.mem) == 0 || len(p.memory) > 0 &&
		&p.mem[0] == &p.memory[0]; inMemory == p.allocated() {
		return fmt.Errorf("mode %v, placed %t, and the frame is in memory: %t", p.mode, p.hasMemory(),
			inMemory)
	}
	inRing := map[*slot]bool{&p.edge: true}
	for prev, s := &p.edge, p.edge.next; s != &p.edge; prev, s = s, s.next {
		if inRing[s] {
			return fmt.Errorf("the ring does not close")
		}
		inRing[s] = true
		if s.prev != prev || len(s.data) == 0 || int(s.from) < prev.end() ||
			&s.data[0] != &p.memory[s.from] {
			return fmt.Errorf("slot [%d, %d) behind [%d, %d)", s.from, s.end(), prev.from,
				prev.end())
		}
		if state := s.state.Load(); state != s.gen && state != s.gen+1 {
			return fmt.Errorf("slot at %d has state %d in generation %d", s.from, state, s.gen)
		}
	}
	free := 0
	for s := p.free; s != nil; s = s.next {
		if free++; inRing[s] || s.released() {
			return fmt.Errorf("a free slot is in the ring: %t, released: %t", inRing[s],
				s.released())
		}
	}
	if free+len(inRing)-1 != len(p.slots) {
		return fmt.Errorf("%d slots are in the ring and %d free, of %d", len(inRing)-1, free,
			len(p.slots))
	}
	if !inRing[p.prev] || p.edge.released() || p.edge.end() != 0 {
		return fmt.Errorf("prev is in the ring: %t; the edge ends at %d", inRing[p.prev],
			p.edge.end())
	}
	if p.hasMemory() && p.mode != Alloc && (p.free == nil || p.begin < p.prev.end() ||
		p.limit > p.gapEnd(p.prev)) {
		return fmt.Errorf("the frame has [%d, %d), its gap is [%d, %d)", p.begin, p.limit,
			p.prev.end(), p.gapEnd(p.prev))
	}
	return nil
}

func (f *frame) broken() error {
	if f.begin < 0 || f.start < 0 || f.begin+f.start > f.end || f.end > f.limit ||
		f.limit > len(f.mem) {
		return fmt.Errorf("the frame is [%d+%d, %d) of %d of %d", f.begin, f.start, f.end, f.limit,
			len(f.mem))
	}
	return nil
}

// BrokenHeap returns an error that names the invariant that h's frame violates.
func BrokenHeap(h *Heap) error { return h.frame.broken() }
