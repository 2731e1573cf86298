package broadcast

import (
	"sort"

	"github.com/millrace-io/millrace"
)

// segmentPieces is the maximum number of pieces of a segment. A Chain holds that many pieces
// without allocating.
const segmentPieces = 4

// A segment is a part of a byteLog. Its Chain holds consecutive bytes of the stream.
type segment struct {
	chain      millrace.Chain
	start, end int64 // log offsets of the chain's first byte and end
}

// A byteLog keeps the bytes of all frames in a Ring. An offset in the log counts from the start of
// the stream.
//
// The bytes are in a queue of segments, each with a small Chain. With one long Chain, finding a
// byte in the middle would be slow.
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

// firstSegments is the initial length of a byteLog's queue of segments. It is usually enough for
// the first 256 frames (firstRecords).
const firstSegments = firstRecords / segmentPieces

// at returns a pointer to the log's entry for segment i. Segment 0 is the oldest segment in the
// log.
func (l *byteLog) at(i int) **segment {
	i += l.first
	if i >= len(l.queue) {
		i -= len(l.queue)
	}
	return &l.queue[i]
}

// append moves p's bytes to the end of the log. It returns the range of pieces of memory that
// contain these bytes: firstPiece is the number of the first one, and lastPiece the number after
// the last one. If p's bytes directly follow the log's last byte in memory, they usually extend the
// log's last piece. The caller has made room for p.
func (l *byteLog) append(p *millrace.Chain) (firstPiece, lastPiece uint32) {
	if p.Len() == 0 {
		return l.here()
	}
	if p.Pieces() > segmentPieces {
		// The frame goes into several segments. Call bytesOf first, because it panics if the
		// frame's owner has released p. Nothing has been appended then.
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
			first-- // the frame's first piece has extended the last piece of the log
		}
		l.pieces += uint32(grown)
		s.end = s.start + int64(s.chain.Len())
		l.end = s.end
	}
	return first, l.pieces
}

// here returns the range of pieces of memory for a frame without bytes: the number of the log's
// last piece, and the number after it.
func (l *byteLog) here() (firstPiece, lastPiece uint32) { return l.pieces - 1, l.pieces }

// bytesOf returns the number of bytes in the first n pieces of p, where n is the argument pieces.
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

// lastSegment returns the last segment of the log. If that segment already has four pieces of
// memory (segmentPieces), lastSegment first appends a new one.
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

// take returns a spare segment, or a new one.
func (l *byteLog) take() *segment {
	n := len(l.spare)
	if n == 0 {
		return new(segment)
	}
	s := l.spare[n-1]
	l.spare = l.spare[:n-1]
	return s
}

// share appends the bytes [from, to) of the log to dst, without copying them. from and to are
// offsets in the log, which must still keep these bytes. dst owns the added references.
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

// drop releases the bytes before offset. It panics if a publisher has wrongly released a chain that
// it had published. After the panic, the log can still be used, without the segment that held the
// chain.
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
