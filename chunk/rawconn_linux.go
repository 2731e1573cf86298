package chunk

import (
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// The functions in this file call a method of a connection's syscall.RawConn. Each gets the RawConn, for one type of
// connection after the other, where it uses it: then the compiler sees of what type it is and that nobody keeps it, and has
// it on the stack. A RawConn that is passed on is an allocation, as is whatever is passed to it.

// control calls with with f's descriptor, which is not closed meanwhile.
func control(f *os.File, with func(fd uintptr)) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	return raw.Control(with)
}

// readRaw calls from with c's descriptor until it returns true, each time that there is something to be read. It returns
// errUnhandled if c is a nil pointer.
func readRaw(c syscall.Conn, from func(fd uintptr) (done bool)) error {
	switch c := c.(type) {
	case *net.TCPConn:
		if raw, err := c.SyscallConn(); err == nil {
			return raw.Read(from)
		}
	case *net.UnixConn:
		if raw, err := c.SyscallConn(); err == nil {
			return raw.Read(from)
		}
	case *os.File:
		if raw, err := c.SyscallConn(); err == nil {
			return raw.Read(from)
		}
	default:
		if raw, err := c.SyscallConn(); err == nil {
			return raw.Read(from)
		}
	}
	return errUnhandled
}

// writeRaw is readRaw for writing.
func writeRaw(c syscall.Conn, to func(fd uintptr) (done bool)) error {
	switch c := c.(type) {
	case *net.TCPConn:
		if raw, err := c.SyscallConn(); err == nil {
			return raw.Write(to)
		}
	case *net.UnixConn:
		if raw, err := c.SyscallConn(); err == nil {
			return raw.Write(to)
		}
	case *os.File:
		if raw, err := c.SyscallConn(); err == nil {
			return raw.Write(to)
		}
	default:
		if raw, err := c.SyscallConn(); err == nil {
			return raw.Write(to)
		}
	}
	return errUnhandled
}

// look returns what kind of file f is, without its permissions, and the size that it says it has. It is f.Stat without the
// allocation.
func look(f *os.File) (kind os.FileMode, size int64, err error) {
	var st unix.Stat_t
	var failed error
	err = control(f, func(fd uintptr) {
		for {
			if failed = unix.Fstat(int(fd), &st); failed != unix.EINTR {
				return
			}
		}
	})
	if err == nil {
		err = failed
	}
	if err != nil {
		return 0, 0, err
	}
	return kinds[st.Mode&unix.S_IFMT>>12], st.Size, nil
}

// kinds are the kinds of files as the kernel numbers them.
var kinds = [16]os.FileMode{
	unix.S_IFREG >> 12:  0,
	unix.S_IFDIR >> 12:  os.ModeDir,
	unix.S_IFIFO >> 12:  os.ModeNamedPipe,
	unix.S_IFSOCK >> 12: os.ModeSocket,
	unix.S_IFBLK >> 12:  os.ModeDevice,
	unix.S_IFCHR >> 12:  os.ModeDevice | os.ModeCharDevice,
	unix.S_IFLNK >> 12:  os.ModeSymlink,
}
