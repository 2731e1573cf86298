package tcpconn

import (
	"net"

	"golang.org/x/sys/unix"
)

// BoundUnsent limits the number of unsent bytes that the kernel buffers for the connection c. The
// limit is n. BoundUnsent does nothing if c is nil or n is 0.
func BoundUnsent(c *net.TCPConn, n int) {
	if c == nil || n <= 0 {
		return
	}
	if raw, err := c.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) {
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, n)
		})
	}
}
