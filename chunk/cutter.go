package chunk

// A Cutter finds the ends of records in a stream, for a [Reader] that cuts its chunks there. [Lines], [JSON] and
// [Fixed] are Cutters, and [CutFunc] makes one from a function.
//
// What a Cutter knows of a stream is in the Window, so that one Cutter may serve any number of Readers at a time. A
// Reader calls its Cutter on one goroutine at a time, not always the same one. The Cutter must not call the Reader.
type Cutter interface {
	// Cut returns the length of the longest part of w.Data, from its start and at most w.Limit bytes, that ends where
	// a record ends. Where the first record is longer than that, it returns that record's length: more than
	// len(w.Data) if it is known before the record has arrived, and 0 if it is not known yet. A negative number says
	// that no record can begin like w.Data, which is not empty.
	//
	// It sets w.Seen to the number of bytes that it need not look at again, and w.State to whatever it must remember
	// there. A length up to len(w.Data) is cut off before Cut is called again. It borrows w.
	Cut(w *Window) int

	// Whole is asked when the source has ended. It reports whether what follows the last end in w.Data, all of which
	// Cut has been shown, is a record although no end follows. It borrows w.
	Whole(w *Window) bool
}

// A Window is what a [Cutter] looks at: the bytes that have arrived since the last cut, and what it knows of them.
//
// Invariant: 0 ≤ Seen ≤ len(Data).
type Window struct {
	Data  []byte // begins where a record begins; valid until Cut or Whole returns, not to be written to
	Seen  int    // bytes that the last Cut need not see again
	State int    // the Cutter's own: 0 at the start of the stream, then what the last Cut left
	Limit int    // bytes: a chunk should not be longer
}

// CutFunc makes a Cutter from a function that returns the length in bytes of the first record in data, which is not
// empty. It returns 0 while the length is not known, more than len(data) when the length is known from the record's
// start, and less than 0 when no record can begin like this. Records that end with a zero byte, and records that begin
// with their length:
//
//	chunk.CutFunc(func(data []byte) int { return bytes.IndexByte(data, 0) + 1 })
//	chunk.CutFunc(func(data []byte) int {
//		if len(data) < 4 {
//			return 0
//		}
//		return 4 + int(binary.BigEndian.Uint32(data))
//	})
//
// It is called once for each record, and again for the last one, from its start, when more has arrived. A function that
// takes long over that, because its records are long and come in small pieces, is better written as a Cutter with a
// state. A source that ends within a record is an error.
type CutFunc func(data []byte) int

// Cut implements [Cutter].
func (f CutFunc) Cut(w *Window) (end int) {
	w.Seen = len(w.Data)
	for end < min(len(w.Data), w.Limit) {
		n := f(w.Data[end:])
		if end == 0 && (n <= 0 || n > len(w.Data)) {
			return n
		}
		if n <= 0 || n > len(w.Data)-end || end > 0 && n > w.Limit-end {
			break // its turn comes when it is the first
		}
		end += n
	}
	return end
}

// Whole implements [Cutter]. It returns false: a record without its end is not whole.
func (CutFunc) Whole(*Window) bool { return false }

// anywhere is the Cutter of a Reader that has none: each byte is a record.
type anywhere struct{}

func (anywhere) Cut(w *Window) int {
	w.Seen = len(w.Data)
	return min(len(w.Data), w.Limit)
}

func (anywhere) Whole(*Window) bool { return true }
