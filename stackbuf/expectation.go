package stackbuf

import (
	"bytes"
	"io"
	"math"
	"os"
	"strings"
)

const (
	// What a type that nobody here knows says of its size is believed up to this much at once. It may have been told by
	// a peer.
	believeSize = 16 << 20

	// An io.LimitedReader's limit is often no size at all, but what must not be exceeded.
	believeLimit = 64 << 10

	// Beyond that, memory is taken for this many times what has arrived: whoever wants a gigabyte taken has to send 16
	// MB.
	believeTimes = 64
)

// An expectation is what a source says that it is going to give.
type expectation struct {
	total   int64 // bytes; unknown if it does not say
	atOnce  int64 // of which this many are believed before any has come
	arrived int64
}

// expect asks r for its size.
func expect(r io.Reader) expectation {
	switch r := r.(type) {
	case *bytes.Reader:
		return certain(int64(r.Len()))
	case *strings.Reader:
		return certain(int64(r.Len()))
	case *bytes.Buffer:
		return certain(int64(r.Len()))
	case *Buffer:
		return certain(int64(r.Len()))
	case *os.File:
		return certain(fileSize(r))
	case *io.LimitedReader:
		return expect(r.R).limit(r.N)
	case *io.SectionReader:
		at, _ := r.Seek(0, io.SeekCurrent) // this combination cannot fail
		return claimed(r.Size()-at, believeLimit)
	case interface{ Len() int }:
		return claimed(int64(r.Len()), believeSize)
	case interface{ Size() int64 }:
		return claimed(r.Size(), believeSize)
	}
	return expectation{total: unknown}
}

// unknown is the size of a source that does not tell.
const unknown = -1

func certain(total int64) expectation { return claimed(total, math.MaxInt64) }

func claimed(total, atOnce int64) expectation {
	return expectation{total: max(total, unknown), atOnce: atOnce}
}

// limit is e where no more than n bytes are read.
func (e expectation) limit(n int64) expectation {
	n = max(n, 0)
	if e.total == unknown {
		return claimed(n, believeLimit)
	}
	e.total = min(e.total, n)
	return e
}

// fileSize returns how many bytes f has from where it stands. They are unknown if it is a pipe or a device, or one of the
// files that the kernel makes up while they are read and says are empty.
func fileSize(f *os.File) int64 {
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return unknown
	}
	at, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		return unknown
	}
	return max(info.Size()-at, 0)
}

// standard says whether the source is of the standard library, and writes to no more than it says.
func (e *expectation) standard() bool { return e.atOnce == math.MaxInt64 }

// left is how many bytes are yet to come, as far as is known.
func (e *expectation) left() int64 { return max(e.total-e.arrived, 0) }

// credible is for how many of the bytes to come memory may be taken now.
func (e *expectation) credible() int64 {
	believed := e.atOnce
	if e.arrived > believed/believeTimes {
		believed = e.arrived * believeTimes
	}
	return min(e.left(), max(believed-e.arrived, 0))
}
