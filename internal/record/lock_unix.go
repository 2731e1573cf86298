//go:build unix

package record

import (
	"os"
	"syscall"
)

// flock takes f for this process, or fails if another one has it. The end of the process gives it back, however it
// ends.
func flock(f *os.File) error {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}
