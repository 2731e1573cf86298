package chunk

import (
	"syscall"
	"time"
)

// wait blocks in the kernel, like a read from a disk. It does not use a timer of the Go runtime. If
// nothing else runs, such a timer takes twice as long to fire, and contenders that read ahead gain
// from the delay.
func wait(d time.Duration) {
	left := syscall.NsecToTimespec(int64(d))
	for syscall.Nanosleep(&left, &left) == syscall.EINTR {
	}
}
