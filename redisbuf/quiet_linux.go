package redisbuf

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// quiet reports whether a connection that was idle can be used: the server has not closed it, and sent nothing but pushes. If
// that is not known, it says so.
func (c *conn) quiet() (quiet, known bool) {
	open, first := true, -1
	c.look(func(fd int) {
		known = true
		open = !hungUp(fd)
		var p [1]byte
		if n, _, err := unix.Recvfrom(fd, p[:], unix.MSG_PEEK|unix.MSG_DONTWAIT); err == nil && n == 1 {
			first = int(p[0])
		}
	})
	if c.vectored == nil {
		return open, known // what comes is encrypted, and may be about the encryption
	}
	return open && (first == -1 || first == kindPush), known
}

// gone reports whether the server has closed the connection.
func (c *conn) gone() (gone bool) {
	c.look(func(fd int) { gone = hungUp(fd) })
	return gone
}

// flowing returns how many bytes the kernel has got from the server, or brought to it (out), if it counts them, and whether
// the server has to do something so that it will be more.
func (c *conn) flowing(out bool) (bytes uint64, turn bool) {
	c.look(func(fd int) {
		waiting := uint(unix.SIOCINQ)
		if out {
			waiting = unix.SIOCOUTQ
		}
		n, err := unix.IoctlGetInt(fd, waiting)
		turn = err == nil && (n > 0) == out
		if info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO); err != nil {
			return // it is a Unix socket
		} else if bytes = info.Bytes_received; out {
			bytes = info.Bytes_acked
		}
	})
	return bytes, turn
}

// look calls f with the connection's descriptor, if it has one.
func (c *conn) look(f func(fd int)) {
	netConn := c.conn
	if wrapped, ok := netConn.(interface{ NetConn() net.Conn }); ok { // tls.Conn
		netConn = wrapped.NetConn()
	}
	if s, ok := netConn.(syscall.Conn); ok {
		if raw, err := s.SyscallConn(); err == nil {
			_ = raw.Control(func(fd uintptr) { f(int(fd)) })
		}
	}
}

// hungUp reports whether the other end of a socket is closed. A TLS connection's last words are before that, so reading
// would not tell.
func hungUp(fd int) bool {
	p := [1]unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
	n, err := unix.Poll(p[:], 0)
	return err == nil && n > 0
}
