package chunk

import "bytes"

// A Cutter finds the ends of records in a stream, for a [Reader] that cuts its chunks there.
// [Lines] and [JSON] return Cutters, and a [CutFunc] is one.
//
// The scan holds a Cutter's state for a stream, so one Cutter may serve any number of Readers at a
// time.
type Cutter interface {
	// cut finds the whole records at the start of w.data. It returns the length of the longest part
	// of w.data that starts at its start, ends where a record ends, and has at most w.limit bytes.
	// If the first record does not end within that many bytes of w.data, cut returns the record's
	// length. This is more than len(w.data) if the length is known before the whole record has
	// arrived, and 0 if it is not known yet. A negative result means that no record can begin like
	// w.data. w.data is not empty.
	//
	// cut sets w.seen to the number of bytes that it need not see again, and w.state to the state
	// for its next call. If it returns a length up to len(w.data), the Reader removes that part
	// before it calls cut again. cut borrows w.
	cut(w *scan) int

	// whole reports whether the bytes after the last end in w.data are a record although they have
	// no end. The Reader calls it at the end of the source, after cut has seen all of w.data. whole
	// borrows w.
	whole(w *scan) bool
}

// A scan is the input of a Cutter: the bytes that have arrived since the last cut, and the Cutter's
// state.
//
// Invariant: 0 ≤ seen ≤ len(data).
type scan struct {
	// data starts at the start of a record. It is valid until cut or whole returns, and must not be
	// changed.
	data []byte
	seen int // bytes that the last cut need not see again
	// The Cutter sets and uses state. It is 0 at the start of the stream, and afterwards the value
	// that the last cut set.
	state int
	limit int // the length in bytes that a chunk should not exceed
}

// CutFunc makes a Cutter from a function that returns the length in bytes of the first record in
// data. data is not empty. If the length is not known yet, the function returns 0. If the length is
// known from the record's start, the result may be more than len(data). If no record can begin like
// data, the result is less than 0. Examples are records that end with a zero byte, and records that
// begin with their length:
//
//	chunk.CutFunc(func(data []byte) int { return bytes.IndexByte(data, 0) + 1 })
//	chunk.CutFunc(func(data []byte) int {
//		if len(data) < 4 {
//			return 0
//		}
//		return 4 + int(binary.BigEndian.Uint32(data))
//	})
//
// The Reader calls the function once for each record. For the last record it calls the function
// again, from the record's start, when more bytes have arrived. A source that ends within a record
// is an error. The calls are made on one goroutine at a time, but not always the same one. The
// function borrows data and must not call the Reader.
type CutFunc func(data []byte) int

func (f CutFunc) cut(w *scan) (end int) {
	w.seen = len(w.data)
	for end < min(len(w.data), w.limit) {
		n := f(w.data[end:])
		if end == 0 && (n <= 0 || n > len(w.data)) {
			return n
		}
		if n <= 0 || n > len(w.data)-end || end > 0 && n > w.limit-end {
			break // it is reported when it is the first record
		}
		end += n
	}
	return end
}

// whole returns false: a record without its end is not whole.
func (CutFunc) whole(*scan) bool { return false }

// anywhere is the Cutter of a Reader without the option At: each byte is a record.
type anywhere struct{}

func (anywhere) cut(w *scan) int {
	w.seen = len(w.data)
	return min(len(w.data), w.limit)
}

func (anywhere) whole(*scan) bool { return true }

// Lines cuts after line feeds, so that a line includes its LF or CR LF. The bytes after the last
// line feed of the source are a line, too.
func Lines() Cutter { return lines{} }

type lines struct{}

// cut searches for the last line feed from the end, so that its cost does not depend on the number
// of lines.
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
