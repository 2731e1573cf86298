package chunk

import "bytes"

// A Cutter finds the ends of records in a stream, at which a [Reader] cuts its chunks. [Lines] and
// [JSON] return Cutters, and a [CutFunc] is a Cutter.
//
// One Cutter may serve any number of Readers at a time.
type Cutter interface {
	// cut returns the total length of the whole records at the start of w.data that fit into
	// w.limit bytes. w.data is not empty.
	//
	// If the first record is longer than w.limit, cut returns its length, which may be more than
	// len(w.data). It returns 0 if the length is not known yet, and a negative number if no record
	// can begin with these bytes.
	//
	// cut sets w.seen to the number of bytes that it need not search again, and may set w.state.
	// Before the next call, the Reader removes the returned records from w.data. cut borrows w.
	cut(w *scan) int

	// whole reports whether the rest of w.data, after the last cut, is a complete record. The
	// source must have ended, and cut must have seen all of w.data. whole borrows w.
	whole(w *scan) bool
}

// A scan is the input of a Cutter: the bytes that are not in a chunk yet, and the state of the
// search for record ends.
//
// Invariant: 0 ≤ seen ≤ len(data). The Cutter has already searched data[:seen].
type scan struct {
	// data begins with the start of a record. A Cutter must not change or keep it.
	data []byte
	seen int // number of bytes already searched
	// The Cutter may store a number here for its next call. It is 0 at the start of the stream.
	state int
	limit int // maximum number of bytes in a chunk, unless a record is longer
}

// CutFunc makes a Cutter from a function that finds the end of the first record in data. data is
// not empty. The function returns:
//
//   - the length of the record in bytes, which may be more than len(data).
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
// The Reader calls the function for each record, and again for an incomplete record when more bytes
// have arrived. If the source ends within a record, the Reader returns an error.
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

// Lines returns a Cutter that cuts after line feeds. A line includes its LF or CR LF. The bytes
// after the last line feed of the source are a line, too.
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
