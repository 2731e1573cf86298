package chunk

import (
	"bytes"
	"io"
	"os"
	"strings"
	"time"

	"github.com/millrace-io/millrace"
)

// A waker is a source in which a Read that hangs can be ended from another goroutine.
type waker interface {
	SetReadDeadline(t time.Time) error
}

var (
	longAgo    = time.Unix(1, 0)
	noDeadline time.Time
)

// wakerOf returns the waker that src is, or that it reads from; or nil.
func wakerOf(src io.Reader) waker {
	if l, ok := src.(*io.LimitedReader); ok {
		return wakerOf(l.R)
	}
	w, _ := src.(waker)
	return w
}

// sourceKind says where a source is read.
type sourceKind int8

const (
	sourceWaits  sourceKind = iota // it may hang: on a goroutine of its own
	sourceFile                     // a regular file: in Next, and on a goroutine of its own once that is seen to pay
	sourceMemory                   // in Next: copying costs less than waking a goroutine up
)

func kindOf(src io.Reader) sourceKind {
	switch s := src.(type) {
	case *bytes.Reader, *bytes.Buffer, *strings.Reader, *millrace.ChainReader:
		return sourceMemory
	case *os.File:
		// Files that the kernel makes up, of which some hang, say that they are regular and have no bytes.
		if info, err := s.Stat(); err == nil && info.Mode().IsRegular() && info.Size() > 0 {
			return sourceFile
		}
	case *io.LimitedReader:
		return kindOf(s.R)
	case *io.SectionReader:
		outer, _, _ := s.Outer()
		if o, ok := outer.(io.Reader); ok {
			return kindOf(o)
		}
	}
	return sourceWaits
}

const (
	// worthwhile is what reading and working must each take for them to be done at the same time: several times what
	// it costs to hand a chunk from one goroutine to the other on a machine that is busy. A page cache gives 64 KiB in
	// a tenth of that, so that a file is read ahead when it comes from a disk.
	worthwhile = 50 * time.Microsecond

	// certain is how many chunks in a row, of those that are timed, must have been worth it.
	certain = 4

	// timed is the number of chunks of which one is timed: looking at the clock costs a hundredth of a chunk from the
	// page cache.
	timed = 8
)

// pace finds out whether a file is worth reading ahead.
type pace struct {
	left   time.Time // when the last chunk was given, zero if it is not timed
	chunks int       // given
	worth  int       // chunks in a row that were worth reading ahead
}

// leave is told that a chunk is given.
func (p *pace) leave() {
	if p.chunks++; p.chunks%timed == 0 {
		p.left = time.Now()
	}
}

// observe is told how long a read took, and how long the work before it took. It reports whether reading ahead is
// certain to pay.
func (p *pace) observe(read, work time.Duration) bool {
	if min(read, work) < worthwhile {
		p.worth = 0
		return false
	}
	p.worth++
	return p.worth >= certain
}
