package broadcast

import "math/bits"

type record struct {
	end int64     // log offset after the frame's last byte
	at  int64     // time of publication, in ns since the ring's epoch
	pre *preamble // the preamble of a keyframe; the record holds a reference to it

	// The frame's bytes are in the pieces [firstPiece, lastPiece) of the log, counted modulo 2^32
	// from the ring's start. A frame may share its first piece with the frame before it.
	firstPiece, lastPiece uint32

	kind kind
}

type kind uint8

const (
	plain kind = iota
	key
	hole // a frame that Publish refused; it has no bytes, and no reader reads past it
)

// records holds a record for each frame in the ring. It is a circular array, doubled when it is
// full. The frames are numbered from 0 in the order of Publish. The oldest frame in the ring has
// the number tail, and the next frame to be published gets the number head.
//
// Invariants:
//
//   - The ring keeps head-tail frames. This is at least 0, and at most limit and len(recs).
//   - len(recs) is a power of two, and len(infos) is 0 or len(recs).
//   - The record of frame n is recs[n%len(recs)].
//   - Frame tail begins at the log offset start. Every other frame begins where the previous frame
//     ends. No frame has a negative length.
type records struct {
	recs       []record
	infos      []any // Infos of the frames, in the same order; nil until a frame has an Info
	limit      int
	tail, head int64
	start      int64 // log offset of the first byte of frame tail
}

// firstRecords is the number of frames for which a new ring allocates records: about two seconds of
// video and audio.
const firstRecords = 256

func newRecords(limit int) records {
	n := 1 << bits.Len(uint(limit-1))
	return records{recs: make([]record, min(n, firstRecords)), limit: limit}
}

func (l *records) count() int { return int(l.head - l.tail) }
func (l *records) full() bool { return l.count() == l.limit }

// at returns the record of frame n, which must still be in the ring.
func (l *records) at(n int64) *record { return &l.recs[n&int64(len(l.recs)-1)] }

// startOf returns the log offset of the first byte of frame n. It requires tail ≤ n ≤ head.
func (l *records) startOf(n int64) int64 {
	if n == l.tail {
		return l.start
	}
	return l.at(n - 1).end
}

// push appends the record of a new frame. There must be fewer records than the limit.
func (l *records) push(r record) {
	if l.count() == len(l.recs) {
		l.grow()
	}
	*l.at(l.head) = r
	l.head++
}

func (l *records) grow() {
	old := *l
	l.recs = make([]record, 2*len(old.recs))
	if old.infos != nil {
		l.infos = make([]any, len(l.recs))
	}
	for n := l.tail; n < l.head; n++ {
		*l.at(n) = *old.at(n)
		l.setInfo(n, old.info(n))
	}
}

// info returns the Frame.Info of frame n, which must still be in the ring.
func (l *records) info(n int64) any {
	if l.infos == nil {
		return nil
	}
	return l.infos[n&int64(len(l.infos)-1)]
}

func (l *records) setInfo(n int64, info any) {
	if l.infos == nil {
		if info == nil {
			return
		}
		l.infos = make([]any, len(l.recs))
	}
	l.infos[n&int64(len(l.infos)-1)] = info
}

func (l *records) pop() record {
	slot := l.at(l.tail)
	r := *slot
	slot.pre = nil // do not keep the preamble reachable
	l.setInfo(l.tail, nil)
	l.tail++
	l.start = r.end
	return r
}
