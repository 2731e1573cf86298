package broadcast

import (
	"sort"

	"github.com/millrace-io/millrace"
)

// segmentPieces bounds the pieces of a segment, unless one frame alone has
// more: what a Chain holds without an array of its own. A segment then costs no
// allocation beyond itself, and finding or dropping a byte in it is a walk over
// four pieces at most.
const segmentPieces = 4

// A segment is a run of whole frames of the log.
type segment struct {
	chain      millrace.Chain
	start, end int64 // log offsets of the chain's bytes: end-start == chain.Len()
}

// A byteLog keeps the bytes of the frames at absolute offsets that only grow.
// It is a queue of small chains rather than one chain, so that the cost of
// sharing a range depends on the range and not on how much the ring keeps.
//
// Invariants: live segments are segs[first:], in order and without a gap
// between one's end and the next one's start; none is empty.
type byteLog struct {
	segs   []*segment
	first  int
	end    int64      // offset after the last byte
	pieces uint32     // pieces ever begun, modulo 2^32
	dead   []*segment // dropped, to be released outside of the ring's lock
	spare  []*segment // released and empty, for later; live + dead + spare ≤ the most that ever lived
}

// append takes ownership of p's bytes and returns the range of pieces that they
// lie in. Bytes that follow the log's last byte in the same block join its
// piece, if that is not the last one of a full segment.
func (l *byteLog) append(p *millrace.Chain) (firstPiece, lastPiece uint32) {
	n, added := p.Len(), p.Pieces()
	if n == 0 {
		// A batch that begins here may have the frame behind it join the
		// piece before: count that piece, so that the sum is never low.
		return l.pieces - 1, l.pieces
	}
	s := l.open(added)
	had := s.chain.Pieces()
	s.chain.Merge(p)
	grown := s.chain.Pieces() - had
	first := l.pieces
	if grown < added {
		first--
	}
	l.pieces += uint32(grown)
	s.end += int64(n)
	l.end = s.end
	return first, l.pieces
}

// open returns the segment that the next frame, of so many pieces, goes to.
func (l *byteLog) open(pieces int) *segment {
	if l.first < len(l.segs) {
		if s := l.segs[len(l.segs)-1]; s.chain.Pieces()+pieces <= segmentPieces {
			return s
		}
	}
	var s *segment
	if n := len(l.spare); n > 0 {
		s = l.spare[n-1]
		l.spare[n-1] = nil
		l.spare = l.spare[:n-1]
	} else {
		s = new(segment)
	}
	s.start, s.end = l.end, l.end
	if len(l.segs) == cap(l.segs) && l.first > len(l.segs)/2 {
		// Half of the array is free: move the queue up instead of growing.
		n := copy(l.segs, l.segs[l.first:])
		clear(l.segs[n:])
		l.segs, l.first = l.segs[:n], 0
	}
	l.segs = append(l.segs, s)
	return s
}

// share appends shares of the bytes [from, to) to dst. The range must be kept.
func (l *byteLog) share(dst *millrace.Chain, from, to int64) {
	if from == to {
		return
	}
	live := l.segs[l.first:]
	i := sort.Search(len(live), func(i int) bool { return live[i].end > from })
	for from < to {
		s := live[i]
		upto := min(to, s.end)
		s.chain.Slice(dst, int(from-s.start), int(upto-s.start))
		from = upto
		i++
	}
}

// drop forgets the bytes below offset. Whole segments go to the dead list, so
// that this costs little however much is dropped; see reap.
func (l *byteLog) drop(offset int64) {
	for l.first < len(l.segs) {
		s := l.segs[l.first]
		if s.end > offset {
			if n := offset - s.start; n > 0 {
				s.chain.Discard(int(n))
				s.start = offset
			}
			return
		}
		l.dead = append(l.dead, s)
		l.segs[l.first] = nil
		l.first++
	}
	l.segs, l.first = l.segs[:0], 0
}

// reapBatch is how many segments reap releases between two uses of the lock.
const reapBatch = 16

// reap releases the blocks of dropped segments, a few at a time and without the
// lock: a group of pictures may be thousands of pieces, and giving back a block
// may touch a counter that another core has just written. The caller does not
// hold r.mu.
func (r *Ring) reap() {
	var batch [reapBatch]*segment
	n := 0
	for {
		r.mu.Lock()
		l := &r.log
		l.spare = append(l.spare, batch[:n]...)
		rest := max(0, len(l.dead)-reapBatch)
		n = copy(batch[:], l.dead[rest:])
		clear(l.dead[rest:])
		l.dead = l.dead[:rest]
		r.mu.Unlock()
		if n == 0 {
			return
		}
		for _, s := range batch[:n] {
			s.chain.Release()
		}
	}
}
