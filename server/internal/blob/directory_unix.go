//go:build unix

package blob

import (
	"syscall"

	"github.com/millrace-io/millrace/server/internal/disk"
)

// Operations of flock.
const (
	shared    = syscall.LOCK_SH
	exclusive = syscall.LOCK_EX
	unlocked  = syscall.LOCK_UN
	// noWait is combined with shared or exclusive. flock then fails if another process holds the
	// lock.
	noWait = syscall.LOCK_NB
)

// flock locks or unlocks the file f for this process. The argument how is a combination of the
// operations above. When the process ends, even if it is killed, the operating system releases the
// locks of the process.
func flock(f disk.File, how int) error {
	for {
		if err := syscall.Flock(int(f.Fd()), how); err != syscall.EINTR {
			return err
		}
	}
}
