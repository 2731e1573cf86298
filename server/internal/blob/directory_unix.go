//go:build unix

package blob

import (
	"os"
	"syscall"
)

// How flock takes a file.
const (
	shared    = syscall.LOCK_SH
	exclusive = syscall.LOCK_EX
	unlocked  = syscall.LOCK_UN
	// With one of the first two: it fails if another process has the file.
	noWait = syscall.LOCK_NB
)

// flock takes f for this process, or gives it back, as does the end of the process, however it
// ends.
func flock(f *os.File, how int) error {
	for {
		if err := syscall.Flock(int(f.Fd()), how); err != syscall.EINTR {
			return err
		}
	}
}
