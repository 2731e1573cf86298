package chunk

import (
	"syscall"
	"time"
)

// wait blocks in the kernel, like a disk read. time.Sleep can take twice as long if no other
// goroutine runs, which would favor contenders that read ahead.
func wait(d time.Duration) {
	left := syscall.NsecToTimespec(int64(d))
	for syscall.Nanosleep(&left, &left) == syscall.EINTR {
	}
}
