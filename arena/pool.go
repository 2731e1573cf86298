package arena

import (
	"bytes"
	"crypto/cipher"
	"fmt"
	"math"
	"time"
)

// defaultSlots is small because most programs work on one frame at a time.
const defaultSlots = 8

// A Pool is a Buffer that keeps its frames in memory that is allocated once. It belongs to one
// goroutine at a time; the Slices that it returns belong to their owners, on any goroutine. Frames
// never overlap, and each is contiguous.
//
// The Pool places a frame when its first byte is requested. It uses the first gap that is large
// enough. It searches from the last frame to the end of memory, and then from the beginning of
// memory. A frame after all frames that are held is in back mode, any other in front mode. If there
// is no such gap, or no slot is free, the Pool allocates the frame on the heap (alloc mode), unless
// it has [NoHeap]. The next frame is placed in the same way. So the Pool returns to its memory with
// the first frame that fits, in any order of release of the Slices. A frame that outgrows its gap
// is moved to another.
//
// Slices keep a Pool's memory alive. A Pool needs no Close.
type Pool struct {
	frame
	memory []byte
	slots  []slot
	// edge closes the ring of slots. It is before the first slot and after the last, and is never
	// released.
	edge slot
	// The frame is placed after this slot. Between frames, prev is the slot that was taken last.
	prev *slot
	free *slot // slots that are not in the ring, linked by next
	mode Mode

	noHeap       bool
	promoteAfter time.Duration
	taken        uint32 // number of frames that were taken
	stats        Stats

	// Invariants:
	//
	//	the slots in the ring are in the order of memory, and their frames do not overlap
	//	a slot is either in the ring or in free
	//	prev is in the ring
	//	placed, mode != Alloc: mem is memory, free is not empty,
	//	                       and prev.end() ≤ begin ≤ limit ≤ from of the slot behind prev
	//	placed, mode == Alloc: mem is the frame's own
	//	!placed: mem is memory, and begin = end = limit
}

// Option changes how a Pool works. Options panic if a value is out of range.
type Option func(*Pool)

// Slots sets how many Slices of the Pool's memory can be held at a time: at least 1, 8 by default.
// A slot takes 64 bytes. If all slots are held, the Pool checks each of them whenever it places a
// frame. n should therefore exceed the usual number of held Slices.
func Slots(n int) Option {
	if n < 1 {
		panic(fmt.Sprintf("arena: Slots(%d): at least 1", n))
	}
	return func(p *Pool) { p.slots = make([]slot, n) }
}

// NoHeap keeps the Pool from allocating frames on the heap. If the Pool's memory has no room,
// Writable returns nil, and Write and Seal return ErrFull. The memory of the Pool is then never
// more than its capacity.
func NoHeap() Option { return func(p *Pool) { p.noHeap = true } }

// PromoteAfter sets how long a frame must be held before [Slice.Promote] moves it to the heap. By
// default, d is 0, and Promote moves a frame at once.
func PromoteAfter(d time.Duration) Option {
	if d < 0 {
		panic(fmt.Sprintf("arena: PromoteAfter(%v): at least 0", d))
	}
	return func(p *Pool) { p.promoteAfter = d }
}

// NewPool returns a Pool with capacity bytes of memory, less than 4 GiB. It panics if capacity is
// out of range.
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

// Mode returns the place of the frame that is currently written or, between frames, of the last
// one.
func (p *Pool) Mode() Mode { return p.mode }

// placed reports whether the frame has a place, which it gets when its first byte is requested.
func (p *Pool) placed() bool { return p.begin < p.limit }

// allocated reports whether the frame is on the heap.
func (p *Pool) allocated() bool { return p.mode == Alloc && p.placed() }

// Writable makes the frame n bytes longer and returns those bytes. They are valid until the next
// call of Writable, Write, Seal, Truncate or Take; their content is undefined. If there is no room
// and the Pool has NoHeap, Writable returns nil and does not change the frame.
func (p *Pool) Writable(n int) []byte {
	if uint(n) > uint(p.limit-p.end) && !p.place(n) {
		return nil
	}
	from := p.end
	p.end = from + n
	return p.mem[from:p.end:p.end]
}

// place finds room for the frame and n more bytes, in the Pool's memory or on the heap. It moves
// the frame if necessary. It reports whether there is room.
func (p *Pool) place(n int) bool {
	if n < 0 {
		panic(fmt.Sprintf("arena: Writable(%d)", n))
	}
	if p.allocated() {
		p.grow(n)
		return true
	}
	if !p.placed() {
		for p.prev.released() {
			p.unlink(p.prev)
		}
	}
	for p.edge.prev.released() { // else released slots would make a frame at the end Front
		p.unlink(p.edge.prev)
	}
	if n <= len(p.memory) && p.findGap(p.Len()+n) {
		data, begin := p.mem[p.begin:p.end], p.prev.end()
		if p.placed() && begin != p.begin {
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

// findGap looks for a gap of at least n bytes and reports whether there is one. If so, prev is then
// the slot before the gap. findGap checks the gaps in the order of memory, beginning after prev,
// once around the ring (Knuth's "next fit", The Art of Computer Programming, 2.5). It unlinks the
// released slots that it meets. If prev is one of them, its predecessor takes its place, and the
// search visits more slots.
func (p *Pool) findGap(n int) bool {
	full := p.free == nil
	for s := p.prev; ; {
		if p.clearGap(s, n) {
			p.prev = s
			return true
		}
		if s = s.next; s != p.prev {
			continue
		}
		if !full || p.free == nil {
			return false
		}
		full = false // a slot was released during this search: check earlier gaps again
	}
}

// clearGap unlinks released slots after s until a slot is free and n bytes fit after s. It reports
// whether they do.
func (p *Pool) clearGap(s *slot, n int) bool {
	for p.free == nil || n > p.gapEnd(s)-s.end() {
		if !s.next.released() {
			return false
		}
		p.unlink(s.next)
	}
	return true
}

// gapEnd returns the offset at which the gap after s ends.
func (p *Pool) gapEnd(s *slot) int {
	if s.next == &p.edge {
		return len(p.memory)
	}
	return int(s.next.from)
}

// unlink takes a released slot out of the ring.
func (p *Pool) unlink(s *slot) {
	s.gen++
	s.prev.next, s.next.prev = s.next, s.prev
	if p.prev == s {
		p.prev = s.prev
	}
	s.next, p.free = p.free, s
}

// Take ends the frame and returns it. The caller owns the Slice and releases it.
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

// takeSlot moves a free slot into the ring, after prev, and returns the frame in it.
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

// abandon ends the frame without a Slice. The next frame has no place yet.
func (p *Pool) abandon() {
	p.begin, p.end, p.limit, p.start = 0, 0, 0, 0
	if p.mode == Alloc {
		p.mem = p.memory
	}
}

// Write appends a copy of b to the frame. It borrows b, which may be bytes of the frame. It returns
// len(b) and nil, or 0 and ErrFull.
func (p *Pool) Write(b []byte) (int, error) {
	b = p.aside(b, len(b))
	to := p.Writable(len(b))
	if to == nil {
		return 0, ErrFull
	}
	return copy(to, b), nil
}

// Seal encrypts the frame from its start on, in place, and appends the AEAD's tag. It borrows nonce
// and additionalData, which may be bytes of the frame before its start. It returns ErrFull and
// leaves the frame unchanged if there is no room for the tag, or for 16 bytes if the tag is
// shorter.
func (p *Pool) Seal(aead cipher.AEAD, nonce, additionalData []byte) error {
	room := sealRoom(aead)
	nonce, additionalData = p.aside(nonce, room), p.aside(additionalData, room)
	if p.Writable(room) == nil {
		return ErrFull
	}
	p.seal(aead, nonce, additionalData)
	return nil
}

// aside returns b. If Writable(n) may move the frame, it returns a copy of b instead. It does so
// because b may be bytes of the frame, and the moved frame may overwrite them.
func (p *Pool) aside(b []byte, n int) []byte {
	if p.placed() && p.mode != Alloc && n > p.limit-p.end {
		return bytes.Clone(b)
	}
	return b
}

// Truncate shortens the frame to n bytes. It panics if the frame is shorter. Truncate(0) also drops
// a frame on the heap. The next byte then begins a frame in the Pool's memory, if there is room.
func (p *Pool) Truncate(n int) {
	p.frame.Truncate(n)
	if n == 0 && p.allocated() {
		p.abandon()
	}
}

// Droppable reports whether every Slice of the Pool's memory has been released.
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
