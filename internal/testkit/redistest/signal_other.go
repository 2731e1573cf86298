//go:build !unix

package redistest

import "syscall"

// This system has no signal that pauses a process. Sending one of these values returns an error.
const (
	pauseSignal  = syscall.Signal(0)
	resumeSignal = syscall.Signal(0)
)
