package arena

import (
	"bytes"
	"crypto/cipher"
	"fmt"
	"math"
	"time"
)

const defaultSlots = 8

// A Pool is a Buffer that keeps its frames in memory that NewPool allocates once. Frames never
// overlap, and each is contiguous.
//
// Only one goroutine at a time may use a Pool. The [Slice] that Take returns may be used on any
// goroutine.
//
// The Pool looks for memory when a frame gets its first byte:
//
//   - It searches for a gap between unreleased frames. The search begins after the last frame and
//     wraps around at the end of the memory. The Pool uses the first gap that is large enough.
//   - If there is no such gap, or if all slots are in use (see [Slots]), the Pool allocates the
//     frame on the heap. With [NoHeap], the call fails instead.
//   - If a frame outgrows its gap, the Pool moves the frame to another gap or to the heap.
//
// [Pool.Mode] returns the place of the current frame.
//
// A Pool needs no Close. The garbage collector frees its memory when neither the Pool nor its
// Slices are reachable.
type Pool struct {
	frame
	memory []byte
	slots  []slot
	// edge is the start and end of the ring of slots. It holds no frame and is never released.
	edge slot
	// prev is the slot directly before the current frame. Without a current frame, the next search
	// for memory begins after prev.
	prev *slot
	free *slot // the slots that are not in the ring
	mode Mode

	noHeap       bool
	promoteAfter time.Duration
	taken        uint32 // number of frames that Take has returned
	stats        Stats

	// Invariants:
	//
	//	the slots in the ring are in the order of memory, and their frames do not overlap
	//	a slot is either in the ring or in free
	//	prev is in the ring
	//	placed, mode != Alloc: mem is memory, free is not empty,
	//	                       and prev.end() ≤ begin ≤ limit ≤ from of the slot after prev
	//	placed, mode == Alloc: mem is the frame's own
	//	!placed: mem is memory, and begin = end = limit
}

// Option changes how a Pool works. Options panic if a value is out of range.
type Option func(*Pool)

// Slots sets the maximum number of unreleased Slices in the Pool's memory. Each Slice uses a slot
// of 64 bytes. The number of slots must be at least 1, and is 8 by default. Choose more slots than
// the usual number of unreleased Slices: while all slots are in use, the Pool checks every slot for
// each new frame.
func Slots(n int) Option {
	if n < 1 {
		panic(fmt.Sprintf("arena: Slots(%d): at least 1", n))
	}
	return func(p *Pool) { p.slots = make([]slot, n) }
}

// NoHeap keeps the Pool from allocating frames on the heap. If the Pool's memory has no room,
// Writable returns nil, and Write and Seal return ErrFull.
func NoHeap() Option { return func(p *Pool) { p.noHeap = true } }

// PromoteAfter sets the minimum age of a frame that [Slice.Promote] moves to the heap. The default
// is 0.
func PromoteAfter(d time.Duration) Option {
	if d < 0 {
		panic(fmt.Sprintf("arena: PromoteAfter(%v): at least 0", d))
	}
	return func(p *Pool) { p.promoteAfter = d }
}

// NewPool returns a Pool of capacity bytes. It panics if capacity is negative or at least 4 GiB.
func NewPool(capacity int, opts ...Option) *Pool {
	if uint64(capacity) > math.MaxUint32 {
		panic(fmt.Sprintf("arena: NewPool(%d): capacity is from 0 to %d bytes", capacity,
			uint32(math.MaxUint32)))
	}
	p := &Pool{memory: make([]byte, capacity)}
	for _, opt := range opts {
		opt(p)
	}
	if p.slots == nil {
		p.slots = make([]slot, defaultSlots)
	}
	for i := range p.slots {
		p.slots[i].next, p.free = p.free, &p.slots[i]
	}
	p.edge.prev, p.edge.next = &p.edge, &p.edge
	p.mem, p.prev = p.memory, &p.edge
	return p
}

// Mode returns the place of the current frame: Front, Back or Alloc. If the current frame is empty,
// Mode returns the place of the previous frame.
func (p *Pool) Mode() Mode { return p.mode }

// hasMemory reports whether the current frame has memory.
func (p *Pool) hasMemory() bool { return p.begin < p.limit }

func (p *Pool) allocated() bool { return p.mode == Alloc && p.hasMemory() }

// Writable makes the frame n bytes longer and returns those bytes. Their content is undefined. They
// are valid until the next call to Writable, Write, Seal, Truncate or Take. If there is no room and
// the Pool has the option [NoHeap], Writable returns nil and does not change the frame.
func (p *Pool) Writable(n int) []byte {
	if uint(n) > uint(p.limit-p.end) && !p.place(n) {
		return nil
	}
	from := p.end
	p.end = from + n
	return p.mem[from:p.end:p.end]
}

// place moves the current frame to memory with room for n more bytes, in the Pool or on the heap.
// It returns false if there is no room.
func (p *Pool) place(n int) bool {
	if n < 0 {
		panic(fmt.Sprintf("arena: Writable(%d)", n))
	}
	if p.allocated() {
		p.grow(n)
		return true
	}
	if !p.hasMemory() {
		for p.prev.released() {
			p.unlink(p.prev)
		}
	}
	for p.edge.prev.released() { // a frame before only released slots must be Back
		p.unlink(p.edge.prev)
	}
	if n <= len(p.memory) && p.findGap(p.Len()+n) {
		data, begin := p.mem[p.begin:p.end], p.prev.end()
		if p.hasMemory() && begin != p.begin {
			copy(p.memory[begin:], data)
		}
		p.begin, p.end, p.limit = begin, begin+len(data), p.gapEnd(p.prev)
		p.mode = Front
		if p.prev.next == &p.edge {
			p.mode = Back
		}
		return true
	}
	if p.noHeap {
		return false
	}
	if p.Len() > 0 {
		p.stats.Spills++
	}
	p.grow(n)
	p.mode = Alloc
	return true
}

// findGap searches for a gap of at least n bytes, from p.prev on, and wraps around at the end of
// the memory (Knuth's "next fit", The Art of Computer Programming, 2.5). If it finds a gap, it sets
// p.prev to the slot before the gap and returns true. It may unlink released slots.
func (p *Pool) findGap(n int) bool {
	full := p.free == nil
	for s := p.prev; ; {
		if p.clearGap(s, n) {
			p.prev = s
			return true
		}
		if s = s.next; s != p.prev { // unlink may have moved p.prev back
			continue
		}
		if !full || p.free == nil {
			return false
		}
		full = false // the search has freed a slot: check the earlier gaps again
	}
}

// clearGap makes room for a frame of n bytes after the slot s. It unlinks the slots after s until
// the gap has n bytes and p.free has a slot. If it reaches an unreleased slot, it returns false.
func (p *Pool) clearGap(s *slot, n int) bool {
	for p.free == nil || n > p.gapEnd(s)-s.end() {
		if !s.next.released() {
			return false
		}
		p.unlink(s.next)
	}
	return true
}

func (p *Pool) gapEnd(s *slot) int {
	if s.next == &p.edge {
		return len(p.memory)
	}
	return int(s.next.from)
}

// unlink moves a released slot from the ring to the free slots.
func (p *Pool) unlink(s *slot) {
	s.gen++
	s.prev.next, s.next.prev = s.next, s.prev
	if p.prev == s {
		p.prev = s.prev
	}
	s.next, p.free = p.free, s
}

// Take returns the frame that has been written, as a Slice that the caller owns and releases. The
// next write begins a new frame. If nothing was written, the Slice is empty.
func (p *Pool) Take() Slice {
	var frame Slice
	if n := p.Len(); n > 0 {
		if p.mode == Alloc {
			frame = onHeap(p.mem[:n:n])
		} else {
			frame = p.takeSlot()
		}
		p.taken++
		count := &p.stats.Modes[p.mode]
		count.Frames++
		count.Bytes += uint64(n)
	}
	p.abandon()
	return frame
}

func (p *Pool) takeSlot() Slice {
	s, before := p.free, p.prev
	after := before.next
	p.free = s.next
	s.prev, s.next = before, after
	before.next, after.prev = s, s
	p.prev = s
	s.data, s.from, s.taken = p.memory[p.begin:p.end:p.end], uint32(p.begin), p.taken
	if p.promoteAfter > 0 {
		s.due = time.Now().Add(p.promoteAfter).UnixNano()
	}
	return Slice{s, s.gen}
}

func (p *Pool) abandon() {
	p.begin, p.end, p.limit, p.start = 0, 0, 0, 0
	if p.mode == Alloc {
		p.mem = p.memory
	}
}

// Write appends a copy of b to the frame. It borrows b, which may lie in the frame. If there is no
// room, Write appends nothing and returns ErrFull.
func (p *Pool) Write(b []byte) (int, error) {
	b = p.cloneIfMoved(b, len(b))
	to := p.Writable(len(b))
	if to == nil {
		return 0, ErrFull
	}
	return copy(to, b), nil
}

// Seal encrypts the frame in place, from the position that SetStart sets, and appends the AEAD's
// tag. It borrows nonce and additionalData, which may lie in the frame before that position.
//
// Seal needs room for a tag of at least 16 bytes, even if the AEAD's tag is shorter. If there is no
// room, Seal returns ErrFull and does not change the frame.
func (p *Pool) Seal(aead cipher.AEAD, nonce, additionalData []byte) error {
	room := sealRoom(aead)
	nonce, additionalData = p.cloneIfMoved(nonce, room), p.cloneIfMoved(additionalData, room)
	if p.Writable(room) == nil {
		return ErrFull
	}
	p.seal(aead, nonce, additionalData)
	return nil
}

// cloneIfMoved returns a copy of b if growing the frame by n bytes may move the frame within the
// Pool's memory. The move could overwrite b. Otherwise cloneIfMoved returns b itself.
func (p *Pool) cloneIfMoved(b []byte, n int) []byte {
	if p.hasMemory() && p.mode != Alloc && n > p.limit-p.end {
		return bytes.Clone(b)
	}
	return b
}

// Truncate shortens the frame to n bytes. It panics if the frame is shorter than n bytes.
//
// If the frame is on the heap, Truncate(0) also drops the frame's memory, and the next write looks
// for room in the Pool's memory again.
func (p *Pool) Truncate(n int) {
	p.frame.Truncate(n)
	if n == 0 && p.allocated() {
		p.abandon()
	}
}

// Droppable reports whether all Slices in the Pool's memory have been released.
func (p *Pool) Droppable() bool {
	for s := p.edge.next; s != &p.edge; s = s.next {
		if !s.released() {
			return false
		}
	}
	return true
}

// Stats returns the statistics of p.
func (p *Pool) Stats() Stats {
	st := p.stats
	st.Slots = len(p.slots)
	for s := p.edge.next; s != &p.edge; s = s.next {
		if !s.released() {
			st.SlotsInUse++
			st.LongestHeld = max(st.LongestHeld, uint64(p.taken-s.taken-1))
		}
	}
	return st
}
