package arena

import (
	"fmt"
	"math"
	"time"
)

const (
	// defaultSlots is few because most programs work on one frame at a time, and slots that come back late cost a look
	// each when memory is short.
	defaultSlots = 8

	maxSlots = 512
)

// A Pool is a Buffer whose frames lie in memory that is allocated once. It belongs to one goroutine at a time; the Slices
// that it gives belong to their owners, on any goroutine. Frames never overlap, and each is contiguous.
//
// Where the next frame goes is decided when its first byte is asked for:
//
//   - behind the frame that was taken last, or where that was if it has been released (when no slot is free, in the next
//     one by number that has been released, if it is large enough);
//   - behind the last frame in memory (back mode);
//   - in front of the first, or between two (front mode);
//   - on the heap (alloc mode), unless HeapFallback is off.
//
// So the Pool goes back to its memory with the first frame that fits there, in whatever order Slices are released.
// After all have been released, that is the next frame that its capacity holds. A frame that outgrows its place is
// moved.
//
// Slices keep a Pool's memory alive. There is nothing to close.
//
// Invariants:
//
//	the slots that are linked lie in memory in the order of their links, and do not overlap
//	a slot is either linked or in free; linked counts the former
//	back is linked, and nothing that lies behind it is held
//	placed, again: prev is linked, empty and not released, and the frame lies between its two neighbours
//	placed, !again, mode != Alloc: current is in free, and the frame lies between prev and the slot that follows it
//	placed, mode == Alloc: mem is the frame's own
//	!placed: begin = end = limit
type Pool struct {
	frame
	memory []byte
	slots  []slot // and behind them the edge
	free   slotSet
	linked int32 // how many are not free
	edge   int32 // the number of the edge, which is that of slots

	placed  bool
	again   bool // the frame is where one was that has been released, in its slot, which is prev
	spilled bool // it has been moved to the heap
	mode    Mode
	current int32 // the slot that it is going to take, unless again
	prev    int32 // the slot that it comes after, or that was taken last
	back    int32 // the slot behind which nothing is held

	// What writableAgain needs, at hand: the slot that was taken last, those around it, and what mode it is in. last is nil
	// when the ring has changed since.
	last, before, after *slot
	lastMode            Mode

	noHeap       bool
	promoteAfter time.Duration
	frames       uint64 // that were taken, in all
	bytes        uint64
	counted      Count // of those, what is in stats
	stats        Stats
}

// Option changes how a Pool works. Options panic when a value is out of range.
type Option func(*Pool)

// Slots sets how many Slices of the Pool's memory there can be at a time: 8, which is the default, 64 or 512. Most programs
// work on one frame at a time, and slots that come back late cost a look each when memory is short. If Slices are released
// in no particular order, have twice as many slots as are usually held: what was released between two Slices that are held
// is used again only when there is need.
func Slots(n int) Option {
	if n != 8 && n != 64 && n != maxSlots {
		panic(fmt.Sprintf("arena: Slots(%d): there are 8, 64 or %d", n, maxSlots))
	}
	return func(p *Pool) { p.edge = int32(n) }
}

// HeapFallback(false) makes Writable return nil, and Write and Seal ErrFull, where the Pool would go to the heap. It bounds
// what the Pool holds to its capacity. The default is true.
func HeapFallback(on bool) Option { return func(p *Pool) { p.noHeap = !on } }

// PromoteAfter sets how long a frame may be held before [Slice.PromoteIfDue] moves it to the heap. The default is 0:
// PromoteIfDue does nothing.
func PromoteAfter(d time.Duration) Option {
	if d < 0 {
		panic(fmt.Sprintf("arena: PromoteAfter(%v): a time is at least 0", d))
	}
	return func(p *Pool) { p.promoteAfter = d }
}

// NewPool returns a Pool with that many bytes of memory, less than 4 GiB; it panics when that is out of range.
func NewPool(capacity int, opts ...Option) *Pool {
	if uint64(capacity) > math.MaxUint32 {
		panic(fmt.Sprintf("arena: NewPool(%d): capacity is from 0 to %d bytes", capacity, uint32(math.MaxUint32)))
	}
	p := &Pool{memory: make([]byte, capacity), edge: defaultSlots}
	for _, opt := range opts {
		opt(p)
	}
	p.slots = make([]slot, p.edge+1)
	for i := range p.edge {
		p.free.add(i)
	}
	edge := &p.slots[p.edge]
	edge.from, edge.prev, edge.next = uint32(capacity), p.edge, p.edge
	p.mem, p.prev, p.back = p.memory, p.edge, p.edge
	return p
}

// Mode says where the frame that is being written is, or where the last one was.
func (p *Pool) Mode() Mode { return p.mode }

// Cap returns the size of the Pool's memory, in bytes.
func (p *Pool) Cap() int { return len(p.memory) }

// Writable makes the frame n bytes longer and returns those, to be written to. They are lent until the next call of
// Writable, Write, Seal, Truncate or Take, and hold what was there before. Writable returns nil, and the frame is as it
// was, when there is no room in the Pool's memory and HeapFallback is off.
func (p *Pool) Writable(n int) []byte {
	from := p.end
	if uint(n) > uint(p.limit-from) {
		return p.writableAgain(n)
	}
	p.end = from + n
	return p.mem[from:p.end:p.end]
}

// writableAgain is Writable where the frame has no place, or one that does not do. If it has none, it is placed where
// the last one was, in the same slot, as long as that has been released and is large enough. That is all there is to do
// for whoever works on one frame after the other, and for them the memory stays in the processor's caches.
func (p *Pool) writableAgain(n int) []byte {
	s := p.last
	if p.placed || s == nil {
		return p.writableElsewhere(n)
	}
	if !s.released() {
		if p.after.released() { // frames are released in the order in which they were taken
			return p.writableIn(s.next, n)
		}
		return p.writableBehind(n)
	}
	if p.before.released() {
		return p.writableBefore(n)
	}
	from, limit := int(p.before.to), int(p.after.from)
	if uint(n) > uint(limit-from) {
		return p.writableElsewhere(n)
	}
	if p.lastMode == Front && p.after.released() && p.modeBehind(s.prev) == Back {
		p.lastMode, p.back = Back, p.prev
	}
	s.gen++ // nobody holds it, but it is not released
	p.begin, p.end, p.limit = from, from+n, limit
	p.enterMode(p.lastMode)
	p.again, p.placed = true, true
	return p.mem[from:p.end:p.end]
}

// writableBehind is writableAgain where the last frame is held, and the one behind it too, or there is none. When no slot
// is free, the frame is placed in one that has been released, the first of those that lie together, because to unlink some
// and to link them again takes longer. Of two that open the memory it is the second: so buffer_sv2 numbers them, whose
// diagrams the tests trace.
func (p *Pool) writableBehind(n int) []byte {
	if p.linked < p.edge {
		return p.writableElsewhere(n)
	}
	i := p.releasedAfter(p.prev)
	if i == none {
		return p.writableElsewhere(n)
	}
	s := &p.slots[i]
	for p.slots[s.prev].released() {
		i = s.prev
		s = &p.slots[i]
	}
	if s.prev == p.edge && p.slots[s.next].released() {
		i = p.exchange(i)
	}
	return p.writableIn(i, n)
}

// releasedAfter returns the next slot by number, from i on round to i, whose frame has been released, or none. All slots
// are linked. Their links lead to one as well, but each would be waited for before the next can be looked at.
func (p *Pool) releasedAfter(i int32) int32 {
	above, below := p.slots[i+1:p.edge], p.slots[:i]
	for j := range above {
		if above[j].released() {
			return i + 1 + int32(j)
		}
	}
	for j := range below {
		if below[j].released() {
			return int32(j)
		}
	}
	return none
}

// writableBefore is writableAgain where the last frame has been released, and the one in front of it as well. The frame is
// placed in the first slot of which that is so: where a batch of frames began that are released together.
func (p *Pool) writableBefore(n int) []byte {
	i, before := p.last.prev, p.before
	for {
		prev := before.prev
		if before = &p.slots[prev]; !before.released() {
			return p.writableIn(i, n)
		}
		i = prev
	}
}

// writableIn places the frame in slot i, which has been released, and the one in front of it has not.
func (p *Pool) writableIn(i int32, n int) []byte {
	s := &p.slots[i]
	before, after := &p.slots[s.prev], &p.slots[s.next]
	from, limit := int(before.to), int(after.from)
	if uint(n) > uint(limit-from) {
		return p.writableElsewhere(n)
	}
	mode := p.modeBehind(s.prev)
	if mode == Back {
		p.back = i
	}
	s.gen++
	p.prev, p.last, p.before, p.after, p.lastMode = i, s, before, after, mode
	p.begin, p.end, p.limit = from, from+n, limit
	p.enterMode(mode)
	p.again, p.placed = true, true
	return p.mem[from:p.end:p.end]
}

// writableElsewhere is Writable where neither the frame's place nor that of the last one does.
func (p *Pool) writableElsewhere(n int) []byte {
	if n < 0 {
		panic(badCount(n))
	}
	if p.placed {
		if !p.move(n) {
			return nil
		}
	} else if !p.place(n) {
		return nil
	}
	from := p.end
	p.end = from + n
	return p.mem[from:p.end:p.end]
}

// Write adds a copy of b to the frame. It borrows b, which may be bytes of the frame. It returns len(b) and nil, or 0 and
// ErrFull.
func (p *Pool) Write(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	if len(b) > p.limit-p.end && p.placed {
		return p.writeMoved(b)
	}
	to := p.Writable(len(b))
	if to == nil {
		return 0, ErrFull
	}
	return copy(to, b), nil
}

// writeMoved is Write where the frame is moved.
func (p *Pool) writeMoved(b []byte) (int, error) {
	from := p.lend(b)
	to := p.Writable(len(b))
	if to == nil {
		return 0, ErrFull
	}
	return copy(to, from.of(&p.frame)), nil
}

// Truncate cuts the frame off behind its first n bytes. It panics when the frame has fewer. With nothing left of it, a frame
// on the heap is given up, and the next byte begins one in the Pool's memory if there is room.
func (p *Pool) Truncate(n int) {
	p.frame.Truncate(n)
	if n == 0 && p.placed && p.mode == Alloc {
		p.leaveHeap()
	}
}

// Take ends the frame and returns it; the caller owns the Slice, and releases it.
func (p *Pool) Take() Slice {
	begin, end, s := p.begin, p.end, p.last
	switch {
	case begin == end:
		return p.takeNothing()
	case p.again:
	case p.mode == Alloc:
		return p.takeFromHeap()
	default:
		s = p.link()
	}
	p.placed, p.again, p.start = false, false, 0
	p.begin, p.limit = end, end
	p.bytes += uint64(end - begin)
	if s.from != uint32(begin) || s.to != uint32(end) { // or s.data is what it has to be
		s.data, s.from, s.to = p.memory[begin:end:end], uint32(begin), uint32(end)
	}
	s.frames = uint32(p.frames)
	p.frames++
	if p.promoteAfter > 0 {
		s.due = time.Now().Add(p.promoteAfter).UnixNano()
	}
	return Slice{&s.loan, s.gen}
}

// takeNothing is Take of a frame that is empty.
func (p *Pool) takeNothing() Slice {
	if p.placed && p.mode == Alloc {
		return p.takeFromHeap()
	}
	p.placed, p.start, p.limit = false, 0, p.end
	p.abandon()
	return Slice{}
}

func (p *Pool) takeFromHeap() Slice {
	s := onHeap(p.mem[p.begin:p.end:p.end])
	if s.Len() > 0 {
		p.frames++
		p.bytes += uint64(s.Len())
		if p.spilled {
			p.stats.Spills++
		}
	}
	p.leaveHeap()
	return s
}

// leaveHeap says that the frame that was on the heap is no longer the Pool's.
func (p *Pool) leaveHeap() {
	p.frame = frame{mem: p.memory}
	p.placed, p.spilled = false, false
}

// link puts current into the ring behind prev, and makes it the last.
func (p *Pool) link() *slot {
	i, before := p.current, &p.slots[p.prev]
	s, after := &p.slots[i], &p.slots[before.next]
	s.prev, s.next = p.prev, before.next
	after.prev, before.next = i, i
	p.free.remove(i)
	p.linked++
	p.prev = i
	p.last, p.before, p.after, p.lastMode = s, before, after, Front
	if p.back == s.prev {
		p.back, p.lastMode = i, Back
	}
	return s
}

// unlink takes a slot that has been released out of the ring.
func (p *Pool) unlink(i int32) {
	s := &p.slots[i]
	s.gen++
	p.slots[s.prev].next = s.next
	p.slots[s.next].prev = s.prev
	p.free.add(i)
	p.linked--
	if p.prev == i {
		p.prev = s.prev
	}
	if p.back == i {
		p.back = s.prev
	}
}

// exchange puts the slot that follows slot i in front of it, and returns that. Both have been released.
func (p *Pool) exchange(i int32) int32 {
	s := &p.slots[i]
	j := s.next
	t := &p.slots[j]
	before, after := &p.slots[s.prev], &p.slots[t.next]
	before.next, t.prev = j, s.prev
	after.prev, s.next = i, t.next
	t.next, s.prev = i, j
	s.data, t.data = t.data, s.data
	s.from, t.from = t.from, s.from
	s.to, t.to = t.to, s.to
	return j
}

// abandon takes current out of the ring if it is there: nothing has become of the frame, or it has gone elsewhere.
func (p *Pool) abandon() {
	if p.again {
		p.again, p.last = false, nil
		p.current, p.prev = p.prev, p.slots[p.prev].prev
		p.slots[p.current].gen-- // as if it had just been released
		p.unlink(p.current)
	}
}

// Droppable says whether every Slice of the Pool's memory has been released.
func (p *Pool) Droppable() bool {
	for i := p.slots[p.edge].next; i != p.edge; i = p.slots[i].next {
		if !p.slots[i].released() && !(p.again && i == p.prev) {
			return false
		}
	}
	return true
}

// Stats says what p has done and holds.
func (p *Pool) Stats() Stats {
	p.account()
	st := p.stats
	st.Slots = int(p.edge)
	for i := p.slots[p.edge].next; i != p.edge; i = p.slots[i].next {
		if s := &p.slots[i]; !s.released() && !(p.again && i == p.prev) {
			st.SlotsInUse++
			st.LongestHeld = max(st.LongestHeld, uint64(uint32(p.frames)-s.frames-1))
		}
	}
	return st
}

// enterMode changes the mode. Frames are counted where it ends, which is seldom.
func (p *Pool) enterMode(m Mode) {
	if p.mode != m {
		p.account()
		p.mode = m
	}
}

// account adds what was taken since it was last called to the count of the mode.
func (p *Pool) account() {
	c := &p.stats.Modes[p.mode]
	c.Frames += p.frames - p.counted.Frames
	c.Bytes += p.bytes - p.counted.Bytes
	p.counted = Count{p.frames, p.bytes}
}
