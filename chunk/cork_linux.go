package chunk

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// cork has the kernel keep what does not fill a packet, until it is told not to. (It does for 200 ms at most.)
func cork(raw syscall.RawConn, on int) {
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_CORK, on)
	})
}
