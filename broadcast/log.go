package broadcast

import (
	"sort"

	"github.com/millrace-io/millrace"
)

// segmentPieces is the most pieces of a segment: what a Chain holds without an
// array of its own. A segment then costs nothing beyond itself, and finding or
// dropping a byte in it is a walk over four pieces at most.
const segmentPieces = 4

// A segment is a run of pieces of the log.
type segment struct {
	chain      millrace.Chain
	start, end int64 // log offsets of the chain's bytes: end-start == chain.Len()
}

// A byteLog keeps the bytes of the frames at absolute offsets that only grow.
// It is a queue of small chains rather than one chain, so that the cost of
// sharing a range depends on the range and not on how much the ring keeps. All
// segments that it will ever have are made with it.
//
// Invariants:
//
//	live segment i, in order, is queue[(first+i)%len(queue)], 0 ≤ i < count
//	no live segment is empty, and each ends where the next one starts
//	all but the first and the last live segment have segmentPieces pieces
//	count + len(dead) + len(spare) + reapers*reapBatch ≥ made
//	reapers ≤ maxReapers, made ≤ len(slab)
type byteLog struct {
	slab  []segment // all segments; those from made on were never used
	made  int
	queue []*segment // a circular array
	first int
	count int

	end    int64      // offset after the last byte
	pieces uint32     // pieces ever begun, modulo 2^32
	dead   []*segment // dropped, to be released outside of the ring's lock
	spare  []*segment // released and empty, for later

	reapers int // goroutines with up to reapBatch dead segments in their hands
}

// newByteLog returns a log with room for so many pieces.
func newByteLog(pieces int) byteLog {
	// The first and the last segment may have a single piece each.
	live := pieces/segmentPieces + 3
	n := live + maxReapers*reapBatch
	return byteLog{
		slab:  make([]segment, n),
		queue: make([]*segment, live),
		dead:  make([]*segment, 0, n),
		spare: make([]*segment, 0, n),
	}
}

// at returns where live segment i stands.
func (l *byteLog) at(i int) **segment {
	i += l.first
	if i >= len(l.queue) {
		i -= len(l.queue)
	}
	return &l.queue[i]
}

// append takes ownership of p's bytes and returns the range of pieces that they
// lie in. Bytes that follow the log's last byte in the same block join its
// piece, if that is not the last one of a full segment. There must be room.
func (l *byteLog) append(p *millrace.Chain) (firstPiece, lastPiece uint32) {
	if p.Len() == 0 {
		return l.here()
	}
	if p.Pieces() > segmentPieces {
		// More than one segment gets a part of it. A chain that its owner has
		// released must panic before the first one does.
		bytesOf(p, p.Pieces())
	}
	first := l.pieces
	for left := p.Pieces(); left > 0; {
		s := l.open()
		had := s.chain.Pieces()
		moved := min(left, segmentPieces-had)
		if moved == left {
			s.chain.Merge(p)
		} else {
			p.Cut(&s.chain, bytesOf(p, moved))
		}
		left -= moved
		grown := s.chain.Pieces() - had
		if grown < moved {
			first-- // only the frame's first piece can have joined another
		}
		l.pieces += uint32(grown)
		s.end = s.start + int64(s.chain.Len())
		l.end = s.end
	}
	return first, l.pieces
}

// here returns the range of pieces of a frame without bytes. The frame behind it
// may join the piece before it: that one counts, so that no sum is ever low.
func (l *byteLog) here() (firstPiece, lastPiece uint32) { return l.pieces - 1, l.pieces }

// bytesOf returns the length of p's first pieces.
func bytesOf(p *millrace.Chain, pieces int) int {
	n := 0
	for b := range p.All() {
		if pieces == 0 {
			break
		}
		n += len(b)
		pieces--
	}
	return n
}

// open returns the segment that the next piece goes to.
func (l *byteLog) open() *segment {
	if l.count > 0 {
		if s := *l.at(l.count - 1); s.chain.Pieces() < segmentPieces {
			return s
		}
	}
	s := l.take()
	s.start, s.end = l.end, l.end
	*l.at(l.count) = s
	l.count++
	return s
}

// take returns an empty segment.
func (l *byteLog) take() *segment {
	if n := len(l.spare); n > 0 {
		s := l.spare[n-1]
		l.spare = l.spare[:n-1]
		return s
	}
	if l.made < len(l.slab) {
		l.made++
		return &l.slab[l.made-1]
	}
	last := len(l.dead) - 1
	if last < 0 {
		// A reaper that panicked, over a chain that was released twice, took
		// some with it.
		return new(segment)
	}
	// The frame is one of very many pieces, or whoever reaps was stopped between
	// two batches.
	s := l.dead[last]
	l.dead = l.dead[:last]
	s.chain.Release()
	return s
}

// share appends shares of the bytes [from, to) to dst. The range must be kept.
func (l *byteLog) share(dst *millrace.Chain, from, to int64) {
	if from == to {
		return
	}
	i := sort.Search(l.count, func(i int) bool { return (*l.at(i)).end > from })
	for from < to {
		s := *l.at(i)
		upto := min(to, s.end)
		s.chain.Slice(dst, int(from-s.start), int(upto-s.start))
		from = upto
		i++
	}
}

// drop forgets the bytes below offset. Whole segments go to the dead list, so
// that this costs little however much is dropped; see reap.
func (l *byteLog) drop(offset int64) {
	for l.count > 0 {
		s := l.queue[l.first]
		if s.end > offset {
			if n := offset - s.start; n > 0 {
				s.chain.Discard(int(n))
				s.start = offset
			}
			return
		}
		l.dead = append(l.dead, s)
		if l.first++; l.first == len(l.queue) {
			l.first = 0
		}
		l.count--
	}
}

const (
	// reapBatch is how many segments reap releases between two uses of the lock.
	reapBatch = 16
	// maxReapers bounds the segments that are in nobody's list, and leaves one
	// to go on when others are stopped.
	maxReapers = 4
)

// reap releases the blocks of dropped segments, a few at a time and without the
// lock: a group of pictures may be thousands of pieces, and giving back a block
// may touch a counter that another core has just written. A few goroutines at a
// time do it, also for those that come meanwhile. The caller does not hold r.mu.
func (r *Ring) reap() {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := &r.log
	if l.reapers == maxReapers {
		return
	}
	l.reapers++
	defer func() { l.reapers-- }()
	var batch [reapBatch]*segment
	for len(l.dead) > 0 {
		rest := max(0, len(l.dead)-reapBatch)
		n := copy(batch[:], l.dead[rest:])
		l.dead = l.dead[:rest]
		r.release(batch[:n])
		l.spare = append(l.spare, batch[:n]...)
	}
}

// release lets go of r.mu, which is held, while it empties segments.
func (r *Ring) release(batch []*segment) {
	r.mu.Unlock()
	defer r.mu.Lock()
	for _, s := range batch {
		s.chain.Release()
	}
}
