//go:build unix

package nettest

import (
	"errors"

	"golang.org/x/sys/unix"
)

// narrow sets the size of a socket's receive buffer, and limits the socket's segments to 536 bytes.
func narrow(fd uintptr, rcvbuf int) error {
	return errors.Join(
		unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_MAXSEG, 536),
		unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, rcvbuf))
}
