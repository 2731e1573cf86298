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
	if p.extend(n) {
		return true
	}
	p.abandon()
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

// extend makes the place larger by what has been released behind it, until n bytes fit behind the frame. It reports
// whether they do.
func (p *Pool) extend(n int) bool {
	s := &p.slots[p.prev]
	for n > p.limit-p.end {
		if !p.slots[s.next].released() {
			return false
		}
		p.unlink(s.next)
		p.after = &p.slots[s.next]
		p.limit = int(p.after.from)
		if p.again && p.back == p.prev {
			p.lastMode = Back
		}
	}
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
	mode := p.modeBehind(g.prev)
	p.enterMode(mode)
	if mode == Back {
		after := g.prev + 1
		if g.prev == p.edge {
			after = 0
		}
		p.current = p.free.above(after)
	} else {
		p.current = p.free.below(p.slots[g.prev].next)
	}
	if p.current == none {
		p.current = p.free.above(0)
	}
}

// modeBehind returns the mode of a frame that is placed behind prev, which was held just now, or is the edge.
func (p *Pool) modeBehind(prev int32) Mode {
	for p.back != prev && p.slots[p.back].released() {
		p.back = p.slots[p.back].prev
	}
	if p.back == prev {
		return Back
	}
	return Front
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
	p.modeBehind(p.edge)
	if g, ok := p.clear(p.back, n); ok {
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

// clear returns the gap behind prev if n bytes fit. It unlinks what has been released behind prev until they would fit
// twice, so that a frame may grow, and leaves the rest to the frames that come next.
func (p *Pool) clear(prev int32, n int) (gap, bool) {
	for {
		g := p.behind(prev)
		ok := p.fits(g, n)
		next := p.slots[prev].next
		if ok && g.limit-g.from-n >= n || !p.slots[next].released() {
			return g, ok
		}
		p.unlink(next)
	}
}
