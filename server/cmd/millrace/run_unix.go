//go:build unix

package main

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// replaceSignals have another process take over.
var replaceSignals = []os.Signal{syscall.SIGUSR2}

// monotonic returns the time that systemd compares with its own, in microseconds.
func monotonic() int64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) // it cannot fail
	return t.Nano() / 1000
}
