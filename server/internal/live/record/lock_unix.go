//go:build unix

package record

import (
	"os"
	"syscall"

	"github.com/millrace-io/millrace/server/internal/disk"
)

// flock locks f for this process, or returns errLocked if another process has locked it. The lock
// ends with the process, even after a crash.
func flock(f disk.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == syscall.EWOULDBLOCK {
		return errLocked
	}
	return os.NewSyscallError("flock", err)
}
