package chunk

import (
	"net"

	"golang.org/x/sys/unix"
)

// cork has the kernel keep what does not fill a packet, until uncork. (It does for 200 ms at most.)
func cork(conn *net.TCPConn) {
	if raw, err := conn.SyscallConn(); err == nil {
		_ = raw.Control(setCork)
	}
}

func uncork(conn *net.TCPConn) {
	if raw, err := conn.SyscallConn(); err == nil {
		_ = raw.Control(clearCork)
	}
}

func setCork(fd uintptr)   { _ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_CORK, 1) }
func clearCork(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_CORK, 0) }
