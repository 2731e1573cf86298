package chunk

import "bytes"

// A Cutter finds the ends of records in a stream. A [Reader] cuts its chunks at these ends. [Lines]
// and [JSON] return Cutters, and a [CutFunc] is a Cutter.
//
// One Cutter may serve any number of Readers at a time, because each Reader stores the state of the
// search itself.
type Cutter interface {
	// cut finds the whole records at the start of w.data that fit into w.limit bytes, and returns
	// their total length. w.data is not empty.
	//
	// If the first record does not end within w.limit bytes, cut returns the length of that record,
	// which may be more than len(w.data). If the length is not known yet, cut returns 0. If no
	// record can begin with the bytes of w.data, cut returns a negative number.
	//
	// cut sets w.seen to the number of bytes that it need not search again. It may set w.state for
	// its next call. If cut returns a length up to len(w.data), the Reader removes that many bytes
	// from w.data before the next call. cut borrows w.
	cut(w *scan) int

	// whole reports whether the bytes of w.data after the last end that cut has found are a
	// complete record. The Reader calls it when the source has ended and cut has seen all of
	// w.data. whole borrows w.
	whole(w *scan) bool
}

// A scan is the input of a Cutter: the bytes that are not in a chunk yet, and the state of the
// search for record ends.
//
// Invariant: 0 ≤ seen ≤ len(data). The Cutter has already searched data[:seen].
type scan struct {
	// The bytes begin with the start of a record. A Cutter must not change or keep them.
	data []byte
	seen int // number of bytes of data that cut need not search again
	// The Cutter may store a number here for its next call. It is 0 at the start of the stream.
	state int
	limit int // maximum number of bytes in a chunk, unless a record is longer
}

// CutFunc makes a Cutter from a function that finds the end of the first record in data. data is
// not empty. The function returns:
//
//   - the length of the record in bytes. It may be more than len(data), if the record's start
//     contains the length.
//   - 0, if the length is not known yet.
//   - a negative number, if no record can begin with these bytes.
//
// Examples are records that end with a zero byte, and records that begin with their length:
//
//	chunk.CutFunc(func(data []byte) int { return bytes.IndexByte(data, 0) + 1 })
//	chunk.CutFunc(func(data []byte) int {
//		if len(data) < 4 {
//			return 0
//		}
//		return 4 + int(binary.BigEndian.Uint32(data))
//	})
//
// The Reader calls the function once for each record. If the last record is incomplete, the Reader
// calls the function again for this record when more bytes have arrived. If the source ends within
// a record, the Reader returns an error.
//
// The function is called on one goroutine at a time, but not always the same one. It borrows data
// and must not call the Reader.
type CutFunc func(data []byte) int

func (f CutFunc) cut(w *scan) (end int) {
	w.seen = len(w.data)
	for end < min(len(w.data), w.limit) {
		n := f(w.data[end:])
		if end == 0 && (n <= 0 || n > len(w.data)) {
			return n
		}
		if n <= 0 || n > len(w.data)-end || end > 0 && n > w.limit-end {
			break // the Reader reports an error when this record is the first in w.data
		}
		end += n
	}
	return end
}

func (CutFunc) whole(*scan) bool { return false }

// anywhere is the Cutter of a Reader without the option [At]. It cuts after any byte.
type anywhere struct{}

func (anywhere) cut(w *scan) int {
	w.seen = len(w.data)
	return min(len(w.data), w.limit)
}

func (anywhere) whole(*scan) bool { return true }

// Lines returns a Cutter that cuts after line feeds, so that a line includes its LF or CR LF. The
// bytes after the last line feed of the source are a line, too.
func Lines() Cutter { return lines{} }

type lines struct{}

// cut searches backwards for the last line feed, so that its cost does not depend on the number of
// lines.
func (lines) cut(w *scan) int {
	seen, limit := w.seen, min(len(w.data), w.limit)
	w.seen = len(w.data)
	if seen < limit {
		if i := bytes.LastIndexByte(w.data[seen:limit], '\n'); i >= 0 {
			w.seen = limit
			return seen + i + 1
		}
		seen = limit
	}
	if i := bytes.IndexByte(w.data[seen:], '\n'); i >= 0 {
		w.seen = seen + i + 1
		return w.seen
	}
	return 0
}

func (lines) whole(*scan) bool { return true }
