package arena

// A gap is room between two slots that are neighbours: behind prev and before the slot that follows it.
type gap struct {
	prev        int32
	from, limit int
}

// place finds a place for a new frame of at least n bytes. It reports whether there is one.
func (p *Pool) place(n int) bool {
	p.last = nil
	for p.slots[p.prev].released() {
		p.unlink(p.prev)
	}
	g, ok := p.clear(p.prev, n)
	if !ok {
		if g, ok = p.search(n); !ok {
			return p.placeOnHeap(n)
		}
	}
	p.enter(g)
	p.begin, p.end = g.from, g.from
	p.placed = true
	return true
}

func (p *Pool) placeOnHeap(n int) bool {
	if p.noHeap {
		return false
	}
	p.moveTo(enlarged(nil, n))
	p.enterMode(Alloc)
	p.placed = true
	return true
}

// move finds a place for the frame where it has n bytes more, and moves it there. It reports whether there is one.
func (p *Pool) move(n int) bool {
	data := p.mem[p.begin:p.end]
	if p.mode == Alloc {
		p.grow(n)
		return true
	}
	p.abandon()
	if g, _ := p.clear(p.prev, 0); n <= g.limit-p.end {
		p.enter(g)
		return true
	}
	if n <= len(p.memory) { // or the sum may be out of range
		if g, ok := p.search(len(data) + n); ok {
			p.enter(g)
			p.begin, p.end = g.from, g.from+copy(p.memory[g.from:g.limit], data)
			return true
		}
	}
	if p.noHeap {
		return false
	}
	p.grow(n)
	p.enterMode(Alloc)
	p.spilled = true
	return true
}

// behind returns the gap behind a slot.
func (p *Pool) behind(prev int32) gap {
	s := &p.slots[prev]
	return gap{prev, int(s.to), int(p.slots[s.next].from)}
}

// fits says whether a frame of n bytes fits into g, and there is a slot for it.
func (p *Pool) fits(g gap, n int) bool {
	return n <= g.limit-g.from && p.linked < p.edge
}

// enter makes g the place of the frame, and chooses its slot: numbers go up behind all others and down in front of
// them, so that they show where frames are.
func (p *Pool) enter(g gap) {
	p.prev, p.limit = g.prev, g.limit
	next := p.slots[g.prev].next
	if next == p.edge {
		p.enterMode(Back)
		after := g.prev + 1
		if g.prev == p.edge {
			after = 0
		}
		p.current = p.free.above(after)
	} else {
		p.enterMode(Front)
		p.current = p.free.below(next)
	}
	if p.current == none {
		p.current = p.free.above(0)
	}
}

// search looks for a gap of n bytes: where the last frame was placed, at the end of memory, and at its beginning. Then
// it looks in the order of memory from the last frame on, round to that one again, which is Knuth's "next fit" (The Art
// of Computer Programming, 2.5). It unlinks the released slots that it comes across, and stops at the first gap that
// does.
func (p *Pool) search(n int) (gap, bool) {
	full := p.linked == p.edge
	if g, ok := p.clear(p.prev, n); ok {
		return g, true
	}
	last := p.slots[p.edge].prev
	for p.slots[last].released() {
		last = p.unlink(last)
	}
	if g := p.behind(last); p.fits(g, n) {
		return g, true
	}
	if g, ok := p.clear(p.edge, n); ok {
		return g, true
	}
	// While this goes on more may be released, prev among them; then its predecessor takes its place.
	for i := p.slots[p.prev].next; i != p.prev; i = p.slots[i].next {
		if g, ok := p.clear(i, n); ok {
			return g, true
		}
	}
	if full && p.linked < p.edge { // the gaps that were seen before the first slot came back may do now
		return p.search(n)
	}
	return gap{}, false
}

// clear unlinks what has been released behind prev, and returns the gap if n bytes fit.
func (p *Pool) clear(prev int32, n int) (gap, bool) {
	for i := p.slots[prev].next; p.slots[i].released(); i = p.slots[prev].next {
		p.unlink(i)
	}
	g := p.behind(prev)
	return g, p.fits(g, n)
}
