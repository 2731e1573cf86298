//go:build unix

package blob

import (
	"os"
	"syscall"
)

// The operations of flock.
const (
	shared    = syscall.LOCK_SH
	exclusive = syscall.LOCK_EX
	unlocked  = syscall.LOCK_UN
	// noWait is added to shared or exclusive to make flock fail if another process holds the lock.
	noWait = syscall.LOCK_NB
)

// flock locks f for this process, or unlocks it. The end of the process unlocks f too, even if the
// process is killed.
func flock(f *os.File, how int) error {
	for {
		if err := syscall.Flock(int(f.Fd()), how); err != syscall.EINTR {
			return err
		}
	}
}
