//go:build !linux

package chunk

import "syscall"

func cork(syscall.RawConn, int) {}
