package redisbuf

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// sendfileMost is how much is sent by one system call, which does not return before that is done or the socket is full.
const sendfileMost = 1 << 20

// sendFile sends the first size bytes of f, and returns how many have left. errUnhandled says that the kernel cannot do
// that with such a file.
func (v *vectored) sendFile(f *os.File, size int64) (off int64, err error) {
	if err := v.w.use(v.w.writeTimeout); err != nil {
		return 0, err
	}
	file, err := f.SyscallConn()
	if err != nil {
		return 0, &ReaderError{Err: err}
	}
	var failed, waited error
	writable := func(out uintptr) bool {
		err := file.Control(func(in uintptr) { off, failed = sendSome(int(out), int(in), off, size) })
		if err != nil {
			failed = &ReaderError{Err: err} // it was closed
		}
		return failed != unix.EAGAIN
	}
	for {
		before := off
		waited = v.raw.Write(writable)
		v.w.moved = v.w.moved || off > before
		if waited == nil {
			return off, failed
		}
		if err := v.w.goesOn(named(waited, "write")); err != nil {
			return off, err
		}
	}
}

// sendSome sends until the socket is full, which is unix.EAGAIN.
func sendSome(out, in int, off, size int64) (int64, error) {
	for off < size {
		n, err := unix.Sendfile(out, in, &off, int(min(size-off, sendfileMost)))
		switch {
		case err == unix.EINTR:
		case err == unix.EINVAL || err == unix.ENOSYS || err == unix.EOPNOTSUPP:
			return off, errUnhandled
		case err == unix.EAGAIN:
			return off, unix.EAGAIN
		case err == unix.EBADF || err == unix.EIO: // of the file, which cannot be read
			return off, &ReaderError{Err: os.NewSyscallError("sendfile", err)}
		case err != nil:
			return off, os.NewSyscallError("sendfile", err)
		case n == 0:
			return off, &ReaderError{Err: io.ErrUnexpectedEOF}
		}
	}
	return off, nil
}
