package broadcast

import (
	"sort"

	"github.com/millrace-io/millrace"
)

// segmentPieces is the maximum number of pieces in a segment. A Chain holds this many pieces
// without allocating.
const segmentPieces = 4

type segment struct {
	chain      millrace.Chain
	start, end int64 // the chain has the log's bytes [start, end)
}

// A byteLog keeps the bytes of all frames in a Ring, at offsets from the start of the stream. It
// uses many short Chains, because finding a byte in the middle of a long one is slow.
type byteLog struct {
	// Invariants:
	//
	//	live segment i, in order, is queue[(first+i)%len(queue)], 0 ≤ i < count
	//	no live segment is empty, and each ends where the next one starts
	//	all but the first and the last live segment have segmentPieces pieces

	queue []*segment // a circular array, doubled when it is full
	first int
	count int
	spare []*segment // empty segments for reuse

	end    int64  // offset of the log's end
	pieces uint32 // number of pieces appended so far, modulo 2^32
}

const firstSegments = firstRecords / segmentPieces

// at returns the queue's entry for segment i. Segment 0 is the oldest.
func (l *byteLog) at(i int) **segment {
	i += l.first
	if i >= len(l.queue) {
		i -= len(l.queue)
	}
	return &l.queue[i]
}

// append moves the bytes of p to the end of the log. It returns the range [first, end) of the log's
// pieces that then hold these bytes. The caller must have made room for them in the ring.
func (l *byteLog) append(p *millrace.Chain) (first, end uint32) {
	if p.Len() == 0 {
		return l.emptyRange()
	}
	if p.Pieces() > segmentPieces {
		// If the publisher has wrongly released p, bytesOf panics here, before anything is
		// appended.
		bytesOf(p, p.Pieces())
	}
	first = l.pieces
	for left := p.Pieces(); left > 0; {
		s := l.lastSegment()
		had := s.chain.Pieces()
		moved := min(left, segmentPieces-had)
		if moved == left {
			s.chain.Merge(p)
		} else {
			p.CutTo(&s.chain, bytesOf(p, moved))
		}
		left -= moved
		grown := s.chain.Pieces() - had
		if grown < moved {
			first-- // the frame's first piece has extended the last piece of the log
		}
		l.pieces += uint32(grown)
		s.end = s.start + int64(s.chain.Len())
		l.end = s.end
	}
	return first, l.pieces
}

// emptyRange returns the range of pieces for a frame without bytes: the log's last piece.
func (l *byteLog) emptyRange() (first, end uint32) { return l.pieces - 1, l.pieces }

// bytesOf returns the number of bytes in the first n pieces of p.
func bytesOf(p *millrace.Chain, n int) int {
	size := 0
	for b := range p.All() {
		if n == 0 {
			break
		}
		size += len(b)
		n--
	}
	return size
}

// lastSegment returns the last segment of the log, or appends an empty segment if the last one is
// full.
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

func (l *byteLog) take() *segment {
	n := len(l.spare)
	if n == 0 {
		return new(segment)
	}
	s := l.spare[n-1]
	l.spare = l.spare[:n-1]
	return s
}

// share appends the log's bytes at the offsets [from, to) to dst, without copying them. The log
// must still keep these bytes. The added references belong to dst.
func (l *byteLog) share(dst *millrace.Chain, from, to int64) {
	if from == to {
		return
	}
	i := sort.Search(l.count, func(i int) bool { return (*l.at(i)).end > from })
	for from < to {
		s := *l.at(i)
		upto := min(to, s.end)
		s.chain.SliceTo(dst, int(from-s.start), int(upto-s.start))
		from = upto
		i++
	}
}

// drop releases the log's bytes before an offset. It panics if a publisher has wrongly released a
// published chain. After the panic, the log can still be used, without the segment of that chain.
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
