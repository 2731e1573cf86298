package arena

import (
	"fmt"
	"unsafe"
)

// The private parts that tests in package arena_test look at.

const (
	Invariants = invariants
	SliceSize  = unsafe.Sizeof(Slice{})
	SlotSize   = unsafe.Sizeof(slot{})
)

// SlotOf returns the number of the slot that s has in p, and where s begins in p's memory: -1 and -1 if it is not there.
func SlotOf(p *Pool, s Slice) (number, at int) {
	for i := range p.edge {
		if s.loan == &p.slots[i].loan {
			return int(i), int(p.slots[i].from)
		}
	}
	return -1, -1
}

// PlaceOf says whether the frame that is being written has a place, and where that begins in p's memory: -1 on the heap.
func PlaceOf(p *Pool) (at int, placed bool) {
	if p.placed && p.mode != Alloc {
		return p.begin, true
	}
	return -1, p.placed
}

// AllLinked says whether p has to find a slot that has been released before it can place a frame.
func AllLinked(p *Pool) bool { return p.linked == p.edge }

// Broken says which of Pool's invariants p breaks. Slices may be released meanwhile.
func Broken(p *Pool) error {
	if err := p.frame.broken(); err != nil {
		return err
	}
	if !p.placed && (p.begin != p.end || p.end != p.limit || p.again || p.spilled) {
		return fmt.Errorf("between frames: [%d, %d) of %d, again %t, spilled %t", p.begin, p.end, p.limit, p.again, p.spilled)
	}
	if p.placed && p.mode == Alloc {
		if p.again || len(p.memory) > 0 && len(p.mem) > 0 && &p.mem[0] == &p.memory[0] {
			return fmt.Errorf("a frame on the heap has a place in memory")
		}
	} else if len(p.mem) != len(p.memory) || len(p.mem) > 0 && &p.mem[0] != &p.memory[0] {
		return fmt.Errorf("the frame is not in memory, the mode is %v", p.mode)
	}
	linked, err := p.brokenRing()
	if err != nil {
		return err
	}
	if err := p.brokenBack(linked); err != nil {
		return err
	}
	return p.brokenPlace(linked)
}

func (f *frame) broken() error {
	if f.begin < 0 || f.start < 0 || f.begin+f.start > f.end || f.end > f.limit || f.limit > len(f.mem) {
		return fmt.Errorf("the frame is [%d+%d, %d) of %d of %d", f.begin, f.start, f.end, f.limit, len(f.mem))
	}
	return nil
}

// brokenRing looks at the slots, and returns which of them are linked.
func (p *Pool) brokenRing() (linked slotSet, err error) {
	count, to := int32(0), uint32(0)
	for prev, i := p.edge, p.slots[p.edge].next; ; prev, i = i, p.slots[i].next {
		s := &p.slots[i]
		if s.prev != prev {
			return linked, fmt.Errorf("slot %d comes after %d and says %d", i, prev, s.prev)
		}
		if s.from < to {
			return linked, fmt.Errorf("slot %d begins at %d, the one before it ends at %d", i, s.from, to)
		}
		if i == p.edge {
			break
		}
		if count++; count > p.edge {
			return linked, fmt.Errorf("the ring does not close")
		}
		linked.add(i)
		to = s.to
		if err := p.brokenSlot(i); err != nil {
			return linked, err
		}
	}
	if edge := &p.slots[p.edge]; edge.to != 0 || int(edge.from) != len(p.memory) || edge.released() {
		return linked, fmt.Errorf("the edge is [%d, %d), released %t", edge.from, edge.to, edge.released())
	}
	if count != p.linked {
		return linked, fmt.Errorf("%d slots are linked, and counted as %d", count, p.linked)
	}
	for i := range int32(maxSlots) {
		isLinked, isFree := linked.above(i) == i, p.free.above(i) == i
		if isFree != (i < p.edge && !isLinked) {
			return linked, fmt.Errorf("slot %d: linked %t, free %t", i, isLinked, isFree)
		}
		if isFree && p.slots[i].released() {
			return linked, fmt.Errorf("slot %d is free, and its state is not its generation", i)
		}
	}
	return linked, nil
}

// brokenSlot looks at one slot that is linked.
func (p *Pool) brokenSlot(i int32) error {
	s := &p.slots[i]
	if s.from >= s.to {
		return fmt.Errorf("slot %d is [%d, %d)", i, s.from, s.to)
	}
	if state := s.state.Load(); state != s.gen && state != s.gen+1 {
		return fmt.Errorf("slot %d has state %d in generation %d", i, state, s.gen)
	}
	if n := int(s.to - s.from); len(s.data) != n || cap(s.data) != n || &s.data[0] != &p.memory[s.from] {
		return fmt.Errorf("slot %d is [%d, %d), its data are elsewhere", i, s.from, s.to)
	}
	return nil
}

// brokenBack looks at the slots of which back says that none is held.
func (p *Pool) brokenBack(linked slotSet) error {
	if p.back != p.edge && linked.above(p.back) != p.back {
		return fmt.Errorf("back is slot %d, which is not linked", p.back)
	}
	for i := p.slots[p.back].next; i != p.edge; i = p.slots[i].next {
		if !p.slots[i].released() {
			return fmt.Errorf("slot %d is held behind slot %d, and back is that", i, p.back)
		}
	}
	return nil
}

// brokenPlace looks at what the Pool knows of the frame's place.
func (p *Pool) brokenPlace(linked slotSet) error {
	isLinked := func(i int32) bool { return i == p.edge || linked.above(i) == i }
	if !isLinked(p.prev) {
		return fmt.Errorf("the frame comes after slot %d, which is not linked", p.prev)
	}
	if !p.placed || p.mode == Alloc {
		return nil
	}
	prev, next := p.prev, p.slots[p.prev].next
	if !p.again && isLinked(p.current) {
		return fmt.Errorf("slot %d is linked, and not to be used again", p.current)
	}
	if p.again {
		prev = p.slots[p.prev].prev
		if p.last != &p.slots[p.prev] || p.last.released() {
			return fmt.Errorf("slot %d is to be used again, and is not the last", p.prev)
		}
	}
	if from, limit := p.slots[prev].to, p.slots[next].from; p.begin < int(from) || p.limit > int(limit) {
		return fmt.Errorf("the frame has [%d, %d), its place is [%d, %d)", p.begin, p.limit, from, limit)
	}
	return nil
}

// BrokenHeap says which of frame's invariants h breaks.
func BrokenHeap(h *Heap) error {
	if h.mem == nil && (h.begin != h.end || h.end != h.limit) {
		return fmt.Errorf("between frames: [%d, %d) of %d", h.begin, h.end, h.limit)
	}
	return h.frame.broken()
}
