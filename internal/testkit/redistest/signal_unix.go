//go:build unix

package redistest

import "syscall"

// The signals that suspend and resume a process.
const (
	pauseSignal  = syscall.SIGSTOP
	resumeSignal = syscall.SIGCONT
)
