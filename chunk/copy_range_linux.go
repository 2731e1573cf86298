package chunk

import (
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
		n, err := f.copyRange(dst, int(most))
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
		if short && isSame(f.file, dst) {
			return errGrows
		}
		short = int64(n) < most
	}
	return nil
}

// copyRange has the kernel copy up to most bytes of f to dst's position, and returns how many. Neither is closed meanwhile.
func (f *fileRange) copyRange(dst *os.File, most int) (n int, err error) {
	at := f.off
	off := &at
	if f.own {
		off = nil
	}
	var badTarget, failed error
	badSource := control(f.file, func(in uintptr) {
		badTarget = control(dst, func(out uintptr) {
			for {
				n, failed = unix.CopyFileRange(int(in), off, int(out), nil, most, 0)
				if failed != unix.EINTR {
					return
				}
			}
		})
	})
	if badSource != nil {
		return 0, badSource
	}
	if badTarget != nil {
		return 0, badTarget
	}
	switch failed {
	case nil:
		return n, nil
	case unix.EBADF, unix.EINVAL, unix.EIO, unix.ENOSYS, unix.EOPNOTSUPP, unix.EPERM, unix.EXDEV, unix.ETXTBSY, unix.EISDIR:
		// The kernel does not copy between these two file systems, to the end of a file whatever its position, or onto
		// the same file. If something else is wrong, an ordinary read or write says so as well.
		return 0, errUnhandled
	}
	return 0, os.NewSyscallError("copy_file_range", failed)
}
