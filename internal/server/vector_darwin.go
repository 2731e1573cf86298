package server

import (
	"errors"

	"github.com/millrace-io/millrace"
	"golang.org/x/sys/unix"
)

// notSentLowat is the option that bounds what the kernel holds of a connection's data without having sent it.
const notSentLowat = unix.TCP_NOTSENT_LOWAT

// writev gives line and then the first pieces of c to the socket in one system call, without copying or waiting. It borrows
// both, and returns how many bytes it offered and how many of them the kernel took. There is at least one.
func (vec *vector) writev(fd uintptr, line []byte, c *millrace.Chain) (took, offered int, errno unix.Errno) {
	n := 0
	if len(line) > 0 {
		vec.list[0] = line
		offered, n = len(line), 1
	}
	for piece := range c.All() {
		if n == len(vec.list) {
			break
		}
		vec.list[n] = piece
		offered += len(piece)
		n++
	}
	took, err := unix.Writev(int(fd), vec.list[:n])
	clear(vec.list[:n]) // keep no block alive
	if errors.As(err, &errno) {
		return 0, offered, errno
	}
	return took, offered, 0
}

type iovec = []byte
