//go:build unix

package chunk

import (
	"syscall"
	"time"
)

func processorTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // it cannot fail with valid arguments
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
