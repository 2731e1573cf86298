//go:build linux && (amd64 || arm64 || loong64 || ppc64le || riscv64 || s390x)

package chunk

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// sendfileQuick is sendfile for bytes that are in memory and a socket that does not wait. It does not tell the scheduler,
// which otherwise takes the processor away from a thread that is in a system call for more than 20 microseconds, wakes
// another thread for it, and has this one wait for its turn afterwards.
func sendfileQuick(out, in int, off *int64, most int) (int, error) {
	n, _, errno := unix.RawSyscall6(unix.SYS_SENDFILE, uintptr(out), uintptr(in), uintptr(unsafe.Pointer(off)), uintptr(most), 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// sendMore is send with MSG_MORE, which waits for nothing either.
func sendMore(to int, p []byte) (int, error) {
	n, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(to), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)),
		unix.MSG_MORE|unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
