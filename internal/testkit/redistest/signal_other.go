//go:build !unix

package redistest

import "syscall"

// This system has no signals that pause or resume a process.
const (
	pauseSignal  = syscall.Signal(0)
	resumeSignal = syscall.Signal(0)
)
