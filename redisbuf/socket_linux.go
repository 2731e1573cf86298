package redisbuf

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxStep is the maximum number of bytes that the kernel moves before the write timeout is renewed.
const maxStep = 256 << 10

// canSplice reports whether the kernel can move bytes from the connection. This is possible if the
// connection is a plain socket. The caller must first read the bytes in c.in.
func (c *conn) canSplice() bool { return c.raw != nil }

// awaitBytes waits until the server has sent bytes, and returns the number of bytes available.
func (c *conn) awaitBytes() (int, error) {
	if err := c.readDeadline.renew(); err != nil {
		return 0, err
	}
	n, err := readable(c.raw)
	if err != nil {
		err = c.ioError(err)
	}
	return n, err
}

// readable waits until a socket has bytes to read, and returns their number. At the end of the
// stream it returns io.EOF.
func readable(raw syscall.RawConn) (n int, err error) {
	waitErr := raw.Read(func(fd uintptr) bool {
		got, peekErr := peek(int(fd))
		switch {
		case peekErr == unix.EAGAIN:
			return false
		case peekErr != nil:
			err = os.NewSyscallError("recvfrom", peekErr)
		case len(got) == 0:
			err = io.EOF
		default:
			n, err = unix.IoctlGetInt(int(fd), unix.SIOCINQ)
		}
		return true
	})
	if waitErr != nil {
		err = waitErr
	}
	return n, err
}

// canSpliceFrom reports whether the kernel can move bytes from r to the connection.
func (c *conn) canSpliceFrom(r io.Reader) bool {
	if _, ok := c.net.(*net.TCPConn); !ok {
		return false
	}
	switch r := r.(type) {
	case *net.TCPConn:
		return true
	case *net.UnixConn:
		return r.LocalAddr().Network() == "unix"
	}
	return false
}

// spliceFrom waits for bytes of r, and moves up to limit bytes to the server. It returns the number
// of bytes taken from r. The bytes have already arrived, so only the server can block the move.
func (c *conn) spliceFrom(r io.Reader, limit int64) (int64, error) {
	if err := c.flush(); err != nil {
		return 0, err
	}
	raw, err := r.(syscall.Conn).SyscallConn()
	if err != nil {
		return 0, &ReaderError{Err: err}
	}
	there, err := readable(raw)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return 0, &ReaderError{Err: err}
	}
	if err := c.writeDeadline.renew(); err != nil {
		return 0, err
	}
	src := &io.LimitedReader{R: r, N: min(limit, int64(there), maxStep)}
	n, err := c.net.(*net.TCPConn).ReadFrom(src)
	switch {
	case err == nil && src.N > 0:
		err = &ReaderError{Err: io.ErrUnexpectedEOF}
	case errors.Is(err, os.ErrDeadlineExceeded), err != nil && c.hungUp():
		err = c.ioError(err)
	case err != nil:
		err = &ReaderError{Err: err}
	}
	return n, err
}

// sendFile sends the first size bytes of f with sendfile, and returns the number of bytes sent. It
// may stop early without an error, because the kernel cannot send every file.
func (c *conn) sendFile(f *os.File, size int64) (off int64, err error) {
	if c.raw == nil {
		return 0, nil
	}
	file, err := f.SyscallConn()
	if err != nil {
		return 0, &ReaderError{Err: err}
	}
	if err := c.flush(); err != nil {
		return 0, err
	}
	for off < size {
		if err := c.writeDeadline.renew(); err != nil {
			return off, err
		}
		before, sendErr := off, error(nil)
		waitErr := c.raw.Write(func(out uintptr) bool {
			err := file.Control(func(in uintptr) {
				for sendErr = unix.EINTR; sendErr == unix.EINTR; {
					_, sendErr = unix.Sendfile(int(out), int(in), &off, int(min(size-off, maxStep)))
				}
			})
			if err != nil {
				sendErr = &ReaderError{Err: err} // f is closed
			}
			return sendErr != unix.EAGAIN
		})
		switch {
		case waitErr != nil:
			return off, c.ioError(waitErr)
		case errors.Is(sendErr, unix.EINVAL), errors.Is(sendErr, unix.ENOSYS),
			errors.Is(sendErr, unix.EOPNOTSUPP):
			return off, nil
		case sendErr == unix.EBADF, sendErr == unix.EIO: // f cannot be read
			return off, &ReaderError{Err: os.NewSyscallError("sendfile", sendErr)}
		case sendErr != nil:
			return off, c.ioError(os.NewSyscallError("sendfile", sendErr))
		case off == before:
			return off, &ReaderError{Err: io.ErrUnexpectedEOF}
		}
	}
	return off, nil
}

// checkIdle reports whether an idle connection can still be used. An idle connection cannot be used
// if the server has closed it, or if the server has sent data other than a RESP3 push. If checkIdle
// cannot check the connection, usable is true and known is false.
func (c *conn) checkIdle() (usable, known bool) {
	c.control(func(fd int) {
		known, usable = true, !hungUp(fd)
		// Look only at the bytes of a plain socket. The bytes of a TLS connection are encrypted,
		// and may belong to the TLS protocol.
		if usable && c.raw != nil {
			first, err := peek(fd)
			usable = err != nil || len(first) > 0 && first[0] == kindPush
		}
	})
	return usable || !known, known
}

// hungUp reports whether the server is known to have closed the connection.
func (c *conn) hungUp() (yes bool) {
	c.control(func(fd int) { yes = hungUp(fd) })
	return yes
}

// control calls f with the connection's file descriptor, if it has one.
func (c *conn) control(f func(fd int)) {
	conn := c.net
	if wrapper, ok := conn.(interface{ NetConn() net.Conn }); ok { // tls.Conn
		conn = wrapper.NetConn()
	}
	if s, ok := conn.(syscall.Conn); ok {
		if raw, err := s.SyscallConn(); err == nil {
			_ = raw.Control(func(fd uintptr) { f(int(fd)) })
		}
	}
}

// hungUp reports whether the peer has closed the connection, even if there are unread bytes.
func hungUp(fd int) bool {
	p := [1]unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
	n, err := unix.Poll(p[:], 0)
	return err == nil && n > 0
}

// peek returns the first byte that has arrived, without consuming it. It returns no byte at the end
// of the stream, and EAGAIN if nothing has arrived.
func peek(fd int) ([]byte, error) {
	var p [1]byte
	for {
		n, _, err := unix.Recvfrom(fd, p[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		if err != unix.EINTR {
			return p[:max(n, 0)], err
		}
	}
}
