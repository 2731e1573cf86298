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

// open finds out what src has to give, if it is a file that can be read at any position, or a part of one: an *os.File, an
// *io.LimitedReader of one or an *io.SectionReader of one. Otherwise it returns false.
func (f *fileSource) open(ctx context.Context, t *tally, src io.Reader) bool {
	*f = fileSource{src: src, fileRange: fileRange{ctx: ctx, tally: t, end: toEOF}}
	var err error
	switch s := src.(type) {
	case *os.File:
		f.file = s
	case *io.LimitedReader:
		f.file, _ = s.R.(*os.File)
		f.end = max(s.N, 0)
	case *io.SectionReader:
		outer, base, size := s.Outer()
		f.file, _ = outer.(*os.File)
		f.shared = true
		f.off, err = s.Seek(0, io.SeekCurrent)
		f.end = max(size-f.off, 0)
		f.off += base
	}
	if f.file == nil || err != nil {
		return false
	}
	info, err := f.file.Stat()
	if err != nil || !seekable(info.Mode()) {
		return false
	}
	if !f.shared {
		if f.off, err = f.file.Seek(0, io.SeekCurrent); err != nil {
			return false
		}
	}
	f.start = f.off
	if f.end < toEOF-f.off {
		f.end += f.off
	} else {
		f.end = toEOF
	}
	if info.Size() > 0 {
		f.size = max(min(f.end, info.Size())-f.off, 0)
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
	_, err := f.file.Seek(f.off, io.SeekStart)
	return err
}

// isAtEnd reports whether src is known to have nothing more. It reads nothing that could wait.
func isAtEnd(src io.Reader) bool {
	switch s := src.(type) {
	case *os.File:
		off, err := s.Seek(0, io.SeekCurrent)
		return err == nil && modeOf(s).IsRegular() && (&fileRange{file: s, off: off}).isAtEnd(toEOF)
	case *io.SectionReader:
		off, err := s.Seek(0, io.SeekCurrent)
		outer, base, size := s.Outer()
		file, ok := outer.(*os.File)
		return err == nil && (off >= size || ok && (&fileRange{file: file, off: base + off}).isAtEnd(toEOF))
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
