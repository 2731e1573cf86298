//go:build unix

package download

import (
	"os"
	"syscall"
)

// openFlags keeps a symbolic link that somebody else has put in FILE.part's place from being followed, and a pipe from
// being waited for.
const openFlags = syscall.O_NOFOLLOW | syscall.O_NONBLOCK

// lock takes f for this process, or fails if another one has it. Closing f gives it back.
func lock(f *os.File) error {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}
