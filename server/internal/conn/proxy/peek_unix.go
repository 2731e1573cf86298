//go:build unix

package proxy

import (
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// peekHeader waits until it is known whether the connection starts with a PROXY header. It returns
// the header's length, or 0 if there is no header. It does not consume any bytes.
func peekHeader(c *net.TCPConn) (n int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var p [maxV1]byte
	read := raw.Read(func(fd uintptr) bool {
		for {
			got, _, errno := unix.Recvfrom(int(fd), p[:], unix.MSG_PEEK)
			switch {
			case errno == unix.EINTR:
				continue
			case errno == unix.EAGAIN:
				return false
			case errno != nil:
				err = os.NewSyscallError("recvfrom", errno)
				return true
			case got == 0:
				err = io.EOF
				return true
			}
			var incomplete bool
			n, incomplete, err = headerLen(p[:got])
			// If the result is false, RawConn.Read waits for more bytes and calls this function
			// again.
			return !incomplete
		}
	})
	if read != nil {
		return 0, read
	}
	return n, err
}
