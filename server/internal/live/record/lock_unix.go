//go:build unix

package record

import (
	"os"
	"syscall"
)

// flock takes f for this process, or returns errLocked if another one has it. The end of the
// process gives it back, however it ends.
func flock(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == syscall.EWOULDBLOCK {
		return errLocked
	}
	return os.NewSyscallError("flock", err)
}
