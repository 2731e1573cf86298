//go:build unix

package record

import (
	"os"
	"syscall"
)

// flock returns errLocked if another process has locked f. A crash of that process unlocks f.
func flock(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == syscall.EWOULDBLOCK {
		return errLocked
	}
	return os.NewSyscallError("flock", err)
}
