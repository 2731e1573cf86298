package chunk

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"

	"github.com/millrace-io/millrace"
)

// errGrows says that a file is copied to its own end, which would go on until the disk is full.
var errGrows = errors.New("chunk: the file is copied to its own end")

// A fileSource is a file that is copied from, as the caller has it.
type fileSource struct {
	fileRange
	start int64
	size  int64 // bytes that there are to copy; 0 if that is not known
	src   io.Reader
}

// find finds the file that src is, or a part of: an *os.File, an *io.LimitedReader of one or an *io.SectionReader of one.
// Otherwise it returns false. The bytes of a part of the first two kinds count from wherever the file's position is.
func (f *fileSource) find(ctx context.Context, t *tally, src io.Reader) bool {
	var file *os.File
	var base, at int64
	left, shared := int64(toEOF), false
	switch s := src.(type) {
	case *os.File:
		file = s
	case *io.LimitedReader:
		file, _ = s.R.(*os.File)
		left = max(s.N, 0)
	case *io.SectionReader:
		outer, begin, size := s.Outer()
		file, _ = outer.(*os.File)
		var err error
		if at, err = s.Seek(0, io.SeekCurrent); err != nil {
			return false
		}
		base, left, shared = begin, max(size-at, 0), true
	}
	if file == nil {
		return false
	}
	*f = fileSource{src: src, fileRange: fileRange{file: file, shared: shared, ctx: ctx, tally: t}}
	f.begin(base+at, left)
	return true
}

// begin says that there are up to left bytes from off on.
func (f *fileSource) begin(off, left int64) {
	f.start, f.off, f.end = off, off, off+min(left, toEOF-off)
}

// locate finds out from where to where the file is to be copied, if it is said to have size bytes. It reports whether the
// file can be read at any position.
func (f *fileSource) locate(size int64) bool {
	if !f.shared {
		off, err := f.file.Seek(0, io.SeekCurrent)
		if err != nil {
			return false
		}
		f.begin(off, f.end)
	}
	if size > 0 {
		f.size = max(min(f.end, size)-f.off, 0)
	}
	return true
}

// seekable reports whether a file of this kind is read at positions: a regular file or a disk.
func seekable(mode os.FileMode) bool {
	return mode.IsRegular() || mode&os.ModeDevice != 0 && mode&os.ModeCharDevice == 0
}

// settle leaves the caller's source after the bytes that were copied.
func (f *fileSource) settle() error {
	n := f.off - f.start
	switch s := f.src.(type) {
	case *io.SectionReader:
		_, err := s.Seek(n, io.SeekCurrent)
		return err
	case *io.LimitedReader:
		s.N -= n
	}
	if f.own {
		return nil // the kernel has
	}
	_, err := f.file.Seek(f.off, io.SeekStart)
	return err
}

// readFrom returns a number that grows by what is read from src, if src counts that, and otherwise 0.
func readFrom(src io.Reader) int64 {
	switch s := src.(type) {
	case *io.LimitedReader:
		return -s.N
	case *io.SectionReader:
		off, _ := s.Seek(0, io.SeekCurrent)
		return off
	}
	return 0
}

// isAtEnd reports whether src is known to have nothing more. It reads nothing that could wait.
func isAtEnd(src io.Reader) bool {
	switch s := src.(type) {
	case *os.File:
		off, err := s.Seek(0, io.SeekCurrent)
		return err == nil && modeOf(s).IsRegular() && (&fileRange{file: s, off: off}).isAtEnd(toEOF, new([1]byte))
	case *io.SectionReader:
		off, err := s.Seek(0, io.SeekCurrent)
		outer, base, size := s.Outer()
		file, ok := outer.(*os.File)
		return err == nil && (off >= size || ok && (&fileRange{file: file, off: base + off}).isAtEnd(toEOF, new([1]byte)))
	case *io.LimitedReader:
		return s.N <= 0 || isAtEnd(s.R)
	}
	return false
}

// sizeInMemory returns how many bytes src has to give if they are in memory, and 0 if not.
func sizeInMemory(src io.Reader) int64 {
	switch s := src.(type) {
	case *bytes.Reader:
		return int64(s.Len())
	case *bytes.Buffer:
		return int64(s.Len())
	case *strings.Reader:
		return int64(s.Len())
	case *millrace.ChainReader:
		return int64(s.Len())
	case *io.LimitedReader:
		return min(sizeInMemory(s.R), max(s.N, 0))
	}
	return 0
}

// isSame reports whether a and b are one file.
func isSame(a, b *os.File) bool {
	x, err := a.Stat()
	if err != nil {
		return false
	}
	y, err := b.Stat()
	return err == nil && os.SameFile(x, y)
}
