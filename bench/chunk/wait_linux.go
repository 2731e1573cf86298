package chunk

import (
	"syscall"
	"time"
)

// wait blocks in the kernel, as a read from a disk does. A timer of the runtime's takes twice as
// long to fire where nothing else runs, to the advantage of contenders that read ahead.
func wait(d time.Duration) {
	left := syscall.NsecToTimespec(int64(d))
	for syscall.Nanosleep(&left, &left) == syscall.EINTR {
	}
}
