//go:build unix

package nettest

import (
	"errors"

	"golang.org/x/sys/unix"
)

// narrow sets a socket's receive buffer to rcvbuf bytes, and its segments to at most 536 bytes.
func narrow(fd uintptr, rcvbuf int) error {
	return errors.Join(
		unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_MAXSEG, 536),
		unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, rcvbuf))
}
