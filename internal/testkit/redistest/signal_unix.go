//go:build unix

package redistest

import "syscall"

// These stop a process's clock, and let it go on.
const (
	pauseSignal  = syscall.SIGSTOP
	resumeSignal = syscall.SIGCONT
)
