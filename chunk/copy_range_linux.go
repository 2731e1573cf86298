package chunk

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// rangeStep is what one copy_file_range is asked for. A file system that shares blocks does it in no time; one that
// copies takes some ten milliseconds, and only then can the transfer be cancelled or report progress.
const rangeStep = 16 << 20

// toFile moves what is left of f to dst's position by copy_file_range, which advances it. It returns errUnhandled if the
// file systems cannot do that, or if there is nothing to be had in this way from a file that is not empty.
func (f *fileRange) toFile(dst *os.File) error {
	step := int64(rangeStep)
	if f.tally.progress != nil {
		step = sendMost
	}
	short := false
	for first := true; f.off < f.end; first = false {
		if err := f.ctx.Err(); err != nil {
			return err
		}
		most := min(f.end-f.off, step)
		n, left, err := f.copyRange(dst, int(most))
		if err != nil {
			return err
		}
		if n == 0 {
			if first {
				return errUnhandled // the kernel makes some files up only when they are read
			}
			return nil
		}
		f.off += int64(n)
		f.tally.add(&f.tally.CopyFileRange, int64(n))
		if (short || left == somewhat) && isSame(f.file, dst) {
			return errGrows
		}
		if first && int64(n) == most && f.end == toEOF && f.isChasing(dst) {
			return errGrows
		}
		if left == nothing {
			return nil
		}
		short = int64(n) < most
	}
	return nil
}

// isChasing reports whether dst is the same file, and further on: the end of it would never be reached.
func (f *fileRange) isChasing(dst *os.File) bool {
	if !isSame(f.file, dst) {
		return false
	}
	from, to := f.off, int64(0)
	var badSource, badTarget error
	if f.own {
		from, badSource = f.file.Seek(0, io.SeekCurrent)
	}
	to, badTarget = dst.Seek(0, io.SeekCurrent)
	return badSource == nil && badTarget == nil && to > from
}

// A rest is what there was when the kernel had copied less than it was asked for, and was asked again.
type rest int8

const (
	unasked rest = iota // or it could not say
	nothing
	somewhat
)

// copyRange has the kernel copy up to most bytes of f to dst's position, and returns how many. Neither is closed meanwhile.
// Less is mostly all that there is, and asking again at once costs a small file less than to come back for that.
func (f *fileRange) copyRange(dst *os.File, most int) (n int, left rest, err error) {
	at := f.off
	off := &at
	if f.own {
		off = nil
	}
	var badTarget, failed error
	badSource := control(f.file, func(in uintptr) {
		badTarget = control(dst, func(out uintptr) {
			if n, failed = copyFileRange(int(in), off, int(out), most); failed != nil || n == 0 || n == most {
				return
			}
			switch more, err := copyFileRange(int(in), off, int(out), most-n); {
			case err != nil: // comes again
			case more == 0:
				left = nothing
			default:
				n, left = n+more, somewhat
			}
		})
	})
	if badSource != nil {
		return 0, unasked, badSource
	}
	if badTarget != nil {
		return 0, unasked, badTarget
	}
	switch failed {
	case nil:
		return n, left, nil
	case unix.EBADF, unix.EINVAL, unix.EIO, unix.ENOSYS, unix.EOPNOTSUPP, unix.EPERM, unix.EXDEV, unix.ETXTBSY, unix.EISDIR:
		// The kernel does not copy between these two file systems, to the end of a file whatever its position, or onto
		// the same file. If something else is wrong, an ordinary read or write says so as well.
		return 0, unasked, errUnhandled
	}
	return 0, unasked, os.NewSyscallError("copy_file_range", failed)
}

func copyFileRange(in int, off *int64, out, most int) (int, error) {
	for {
		if n, err := unix.CopyFileRange(in, off, out, nil, most, 0); err != unix.EINTR {
			return n, err
		}
	}
}
