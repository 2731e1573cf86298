//go:build !unix

package redistest

import "syscall"

// This operating system has no signals that pause or resume a process. An attempt to send one of
// these values returns an error.
const (
	pauseSignal  = syscall.Signal(0)
	resumeSignal = syscall.Signal(0)
)
