//go:build !unix

package redistest

import "syscall"

// This system has no such signals. Sending them returns an error.
const (
	pauseSignal  = syscall.Signal(0)
	resumeSignal = syscall.Signal(0)
)
