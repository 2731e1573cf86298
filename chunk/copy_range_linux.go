package chunk

import (
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// rangeStep is what one copy_file_range is asked for. A file system that shares blocks does it in no time; one that
// copies takes some ten milliseconds, and only then can the transfer be cancelled or report progress.
const rangeStep = 16 << 20

// toFile moves what is left of f to dst's position by copy_file_range, which advances it. It returns errUnhandled if the
// file systems cannot do that, or if there is nothing to be had in this way from a file that is not empty.
func (f *fileRange) toFile(dst *os.File) error {
	c := rangeCopiers.Get().(*rangeCopier)
	defer c.free()
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
		n, err := c.copy(f, dst, int(most))
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

// A rangeCopier is one copy_file_range. They are kept, because of the closures that hold the descriptors meanwhile.
type rangeCopier struct {
	in   int
	dst  *os.File
	off  *int64 // &at, or nil for the source's own position
	at   int64
	most int
	n    int
	err  error

	withSource, withTarget func(fd uintptr)
}

var rangeCopiers = sync.Pool{New: func() any {
	c := new(rangeCopier)
	c.withSource, c.withTarget = c.holdTarget, c.run
	return c
}}

func (c *rangeCopier) free() {
	c.dst, c.err = nil, nil
	rangeCopiers.Put(c)
}

func (c *rangeCopier) copy(f *fileRange, dst *os.File, most int) (int, error) {
	c.dst, c.off, c.at, c.most, c.n, c.err = dst, nil, f.off, most, 0, nil
	if !f.own {
		c.off = &c.at
	}
	if err := control(f.file, c.withSource); err != nil {
		return 0, err
	}
	switch c.err {
	case nil:
		return c.n, nil
	case unix.EBADF, unix.EINVAL, unix.EIO, unix.ENOSYS, unix.EOPNOTSUPP, unix.EPERM, unix.EXDEV, unix.ETXTBSY, unix.EISDIR:
		// The kernel does not copy between these two file systems, to the end of a file whatever its position, or onto
		// the same file. If something else is wrong, an ordinary read or write says so as well.
		return 0, errUnhandled
	}
	if errno, ok := c.err.(unix.Errno); ok {
		return 0, os.NewSyscallError("copy_file_range", errno)
	}
	return 0, c.err
}

// holdTarget is called while the source cannot be closed.
func (c *rangeCopier) holdTarget(fd uintptr) {
	c.in = int(fd)
	if err := control(c.dst, c.withTarget); err != nil {
		c.err = err
	}
}

// run is called while the target cannot be closed either.
func (c *rangeCopier) run(fd uintptr) {
	for {
		c.n, c.err = unix.CopyFileRange(c.in, c.off, int(fd), nil, c.most, 0)
		if c.err != unix.EINTR {
			return
		}
	}
}
