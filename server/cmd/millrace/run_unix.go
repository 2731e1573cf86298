//go:build unix

package main

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// replaceSignals are the signals that make another process replace this process.
var replaceSignals = []os.Signal{syscall.SIGUSR2}

// monotonic returns CLOCK_MONOTONIC in microseconds, for systemd.
func monotonic() int64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) // cannot fail
	return t.Nano() / 1000
}
