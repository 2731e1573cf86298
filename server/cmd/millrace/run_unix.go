//go:build unix

package main

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// replaceSignals are the signals upon which another process replaces this one.
var replaceSignals = []os.Signal{syscall.SIGUSR2}

// monotonic returns the time of CLOCK_MONOTONIC in microseconds, as systemd expects it.
func monotonic() int64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) // cannot fail
	return t.Nano() / 1000
}
