package chunk

import (
	"syscall"
	"time"
)

// wait blocks in the kernel, like a read from a disk. A timer of the Go runtime would take twice as
// long to fire if nothing else runs, which favours contenders that read ahead.
func wait(d time.Duration) {
	left := syscall.NsecToTimespec(int64(d))
	for syscall.Nanosleep(&left, &left) == syscall.EINTR {
	}
}
