package chunk

import (
	"syscall"
	"time"
)

// wait blocks in the kernel, like a read from a disk. time.Sleep can take twice as long if no other
// goroutine runs. This longer delay would favor contenders that read ahead.
func wait(d time.Duration) {
	left := syscall.NsecToTimespec(int64(d))
	for syscall.Nanosleep(&left, &left) == syscall.EINTR {
	}
}
