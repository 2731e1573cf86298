//go:build !unix

package redistest

import "syscall"

// The system has no such signals: sending them is an error.
const (
	pauseSignal  = syscall.Signal(0)
	resumeSignal = syscall.Signal(0)
)
