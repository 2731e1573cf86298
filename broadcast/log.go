package broadcast

import (
	"sort"

	"github.com/millrace-io/millrace"
)

// segmentPieces limits the pieces of a segment. It is the number of pieces that a Chain holds
// without allocating an array. A segment therefore needs no further allocation, and a search in it
// visits at most four pieces.
const segmentPieces = 4

// A segment is a run of pieces of the log.
type segment struct {
	chain      millrace.Chain
	start, end int64 // log offsets of the chain's bytes: end-start == chain.Len()
}

// A byteLog keeps the bytes of the frames at absolute offsets that only grow. It is a queue of
// small chains instead of one chain, because the cost of sharing a range should not depend on how
// much the ring keeps. Segments that have become empty are kept for reuse.
type byteLog struct {
	// Invariants:
	//
	//	live segment i, in order, is queue[(first+i)%len(queue)], 0 ≤ i < count
	//	no live segment is empty, and each ends where the next one starts
	//	all but the first and the last live segment have segmentPieces pieces

	queue []*segment // a circular array, doubled when it is too small
	first int
	count int
	spare []*segment // empty segments for reuse

	end    int64  // offset after the log's last byte
	pieces uint32 // number of pieces ever begun, modulo 2^32
}

// firstSegments is the initial number of segments. They usually have room for the pieces of
// firstRecords frames.
const firstSegments = firstRecords / segmentPieces

// at returns a pointer to the queue's entry for live segment i.
func (l *byteLog) at(i int) **segment {
	i += l.first
	if i >= len(l.queue) {
		i -= len(l.queue)
	}
	return &l.queue[i]
}

// append takes ownership of p's bytes and returns the range of pieces that they lie in. If p's
// bytes follow the log's last byte in the same block, they extend the log's last piece, unless that
// piece ends a full segment. The caller has made room for p.
func (l *byteLog) append(p *millrace.Chain) (firstPiece, lastPiece uint32) {
	if p.Len() == 0 {
		return l.here()
	}
	if p.Pieces() > segmentPieces {
		// The frame will be split over several segments. bytesOf panics if the frame's owner has
		// released the chain. Call it before the first part is added.
		bytesOf(p, p.Pieces())
	}
	first := l.pieces
	for left := p.Pieces(); left > 0; {
		s := l.lastSegment()
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
			first-- // only the frame's first piece can have extended an earlier one
		}
		l.pieces += uint32(grown)
		s.end = s.start + int64(s.chain.Len())
		l.end = s.end
	}
	return first, l.pieces
}

// here returns the range of pieces of a frame without bytes. The next frame may extend the piece
// before this frame. The range therefore includes that piece, so that no count of pieces is too
// low.
func (l *byteLog) here() (firstPiece, lastPiece uint32) { return l.pieces - 1, l.pieces }

// bytesOf returns the total length of p's first pieces; pieces is their number.
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

// lastSegment returns the segment that the next piece goes to: the last one, or a new one if that
// is full.
func (l *byteLog) lastSegment() *segment {
	if l.count > 0 {
		if s := *l.at(l.count - 1); s.chain.Pieces() < segmentPieces {
			return s
		}
	}
	if l.count == len(l.queue) {
		queue := make([]*segment, max(firstSegments, 2*l.count))
		for i := range l.count {
			queue[i] = *l.at(i)
		}
		l.queue, l.first = queue, 0
	}
	s := l.take()
	s.start, s.end = l.end, l.end
	*l.at(l.count) = s
	l.count++
	return s
}

// take returns an empty segment, a spare one if there is any.
func (l *byteLog) take() *segment {
	n := len(l.spare)
	if n == 0 {
		return new(segment)
	}
	s := l.spare[n-1]
	l.spare = l.spare[:n-1]
	return s
}

// share appends shares of the bytes [from, to) to dst. The log must still hold the range.
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

// drop releases the bytes below offset. It panics if the publisher has released a chain after
// publishing it. That segment is then lost, and the log continues without it.
func (l *byteLog) drop(offset int64) {
	for l.count > 0 {
		s := l.queue[l.first]
		if s.end > offset {
			if n := offset - s.start; n > 0 {
				s.start = offset
				s.chain.Discard(int(n))
			}
			return
		}
		if l.first++; l.first == len(l.queue) {
			l.first = 0
		}
		l.count--
		s.chain.Release()
		l.spare = append(l.spare, s)
	}
}
