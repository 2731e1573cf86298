package chunk

import "bytes"

// A Cutter finds the ends of records in a stream, for a [Reader] that cuts its chunks there.
// [Lines] and [JSON] return Cutters, and a [CutFunc] is one.
//
// A Cutter's state of a stream is in the scan, so one Cutter may serve any number of Readers at a
// time.
type Cutter interface {
	// cut returns the length of the longest part of w.data, from its start and at most w.limit
	// bytes, that ends where a record ends. Where the first record is longer than that, it returns
	// that record's length: more than len(w.data) if it is known before the record has arrived, and
	// 0 if it is not known yet. A negative number says that no record can begin like w.data, which
	// is not empty.
	//
	// It sets w.seen to the number of bytes that it need not see again, and w.state to the state to
	// remember. A length up to len(w.data) is cut off before cut is called again. It borrows w.
	cut(w *scan) int

	// whole is called at the end of the source. It reports whether the bytes after the last end in
	// w.data are a record although it has no end. cut has seen all of w.data. It borrows w.
	whole(w *scan) bool
}

// A scan is a Cutter's input: the bytes that have arrived since the last cut, and its state.
//
// Invariant: 0 ≤ seen ≤ len(data).
type scan struct {
	// Begins where a record begins; valid until cut or whole returns, not to be written to.
	data []byte
	seen int // bytes that the last cut need not see again
	// For the Cutter: 0 at the start of the stream, then the value that the last cut set.
	state int
	limit int // bytes: a chunk should not be longer
}

// CutFunc makes a Cutter from a function that returns the length in bytes of the first record in
// data, which is not empty. It returns 0 while the length is not known, more than len(data) when
// the length is known from the record's start, and less than 0 when no record can begin like this.
// Records that end with a zero byte, and records that begin with their length:
//
//	chunk.CutFunc(func(data []byte) int { return bytes.IndexByte(data, 0) + 1 })
//	chunk.CutFunc(func(data []byte) int {
//		if len(data) < 4 {
//			return 0
//		}
//		return 4 + int(binary.BigEndian.Uint32(data))
//	})
//
// It is called once for each record, and again for the last one, from its start, when more has
// arrived. A source that ends within a record is an error. The Reader calls it on one goroutine at
// a time, not always the same one. The function borrows data and must not call the Reader.
type CutFunc func(data []byte) int

func (f CutFunc) cut(w *scan) (end int) {
	w.seen = len(w.data)
	for end < min(len(w.data), w.limit) {
		n := f(w.data[end:])
		if end == 0 && (n <= 0 || n > len(w.data)) {
			return n
		}
		if n <= 0 || n > len(w.data)-end || end > 0 && n > w.limit-end {
			break // its turn comes when it is the first
		}
		end += n
	}
	return end
}

// whole returns false: a record without its end is not whole.
func (CutFunc) whole(*scan) bool { return false }

// anywhere is the Cutter of a Reader that has none: each byte is a record.
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

// cut looks for the last line feed from the back: how many lines there are before it makes no
// difference.
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
