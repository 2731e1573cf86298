//go:build unix

package blob

import (
	"os"
	"syscall"
)

// Operations of flock.
const (
	shared    = syscall.LOCK_SH
	exclusive = syscall.LOCK_EX
	unlocked  = syscall.LOCK_UN
	// noWait makes flock fail if another process holds the lock.
	noWait = syscall.LOCK_NB
)

// flock locks or unlocks f for this process. Locks end with the process, even if it is killed.
func flock(f *os.File, how int) error {
	for {
		if err := syscall.Flock(int(f.Fd()), how); err != syscall.EINTR {
			return err
		}
	}
}
