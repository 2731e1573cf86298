package server

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// read makes one system call. It does not wait, so it does not tell the scheduler, which would wake a thread to look after
// this one.
func (d *descriptor) read(p []byte) (int, error) {
	n, _, errno := unix.RawSyscall(unix.SYS_READ, uintptr(d.fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
