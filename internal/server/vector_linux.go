package server

import (
	"unsafe"

	"github.com/millrace-io/millrace"
	"golang.org/x/sys/unix"
)

// notSentLowat is the option that bounds what the kernel holds of a connection's data without having sent it.
const notSentLowat = unix.TCP_NOTSENT_LOWAT

// writev gives line and then the first pieces of c to the socket in one system call, without copying, waiting or allocating.
// It borrows both, and returns how many bytes it offered and how many of them the kernel took. There is at least one.
func (vec *vector) writev(fd uintptr, line []byte, c *millrace.Chain) (took, offered int, errno unix.Errno) {
	n := 0
	if len(line) > 0 {
		vec.list[0].Base = &line[0]
		vec.list[0].SetLen(len(line))
		offered, n = len(line), 1
	}
	for piece := range c.All() {
		if n == len(vec.list) {
			break
		}
		vec.list[n].Base = &piece[0]
		vec.list[n].SetLen(len(piece))
		offered += len(piece)
		n++
	}
	// unix.Writev would build the list anew and on the heap. Raw, because the call does not wait: telling the scheduler of
	// each one makes it look for other work that could be done meanwhile.
	r, _, errno := unix.RawSyscall(unix.SYS_WRITEV, fd, uintptr(unsafe.Pointer(&vec.list[0])), uintptr(n))
	clear(vec.list[:n]) // keep no block alive
	if errno != 0 {
		return 0, offered, errno
	}
	return int(r), offered, 0
}

type iovec = unix.Iovec
