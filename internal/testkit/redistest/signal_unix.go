//go:build unix

package redistest

import "syscall"

// These suspend and resume a process.
const (
	pauseSignal  = syscall.SIGSTOP
	resumeSignal = syscall.SIGCONT
)
