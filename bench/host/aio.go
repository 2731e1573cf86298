//go:build linux

package host

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The kernel's asynchronous I/O by its system calls, as linux/aio_abi.h has it. No library is between.

// A queue is a context of io_setup's.
type queue uintptr

// An iocb is a request. The layout is that of little-endian machines.
type iocb struct {
	data   uint64
	_      uint32
	_      int32
	opcode uint16
	_      int16
	fd     uint32
	buf    uint64
	nbytes uint64
	offset int64
	_      uint64
	_      uint32
	_      uint32
}

// An event is an answer: result is a count of bytes, or an error below 0.
type event struct {
	data    uint64
	request uint64
	result  int64
	_       int64
}

const opWrite = 1 // IOCB_CMD_PWRITE

// setUp makes a queue that has room for n requests. That many count against fs.aio-max-nr, whether they are ever made or
// not; beyond it the error is EAGAIN.
func setUp(n int) (queue, error) {
	var q queue
	if _, _, errno := unix.Syscall(unix.SYS_IO_SETUP, uintptr(n), uintptr(unsafe.Pointer(&q)), 0); errno != 0 {
		return 0, os.NewSyscallError("io_setup", errno)
	}
	return q, nil
}

// destroy waits for requests that are on their way.
func (q queue) destroy() error {
	_, _, errno := unix.Syscall(unix.SYS_IO_DESTROY, uintptr(q), 0, 0)
	return syscallError("io_destroy", errno)
}

// submit hands over all requests. The kernel has copied them when it returns; what buf points to it has not.
func (q queue) submit(requests []*iocb) error {
	for len(requests) > 0 {
		n, _, errno := unix.Syscall(unix.SYS_IO_SUBMIT, uintptr(q), uintptr(len(requests)),
			uintptr(unsafe.Pointer(&requests[0])))
		if errno == unix.EINTR {
			continue
		}
		if errno != 0 {
			return syscallError("io_submit", errno)
		}
		requests = requests[n:]
	}
	return nil
}

// collect waits until at least one request has an answer.
func (q queue) collect(into []event) (int, error) {
	for {
		n, _, errno := unix.Syscall6(unix.SYS_IO_GETEVENTS, uintptr(q), 1, uintptr(len(into)),
			uintptr(unsafe.Pointer(&into[0])), 0, 0)
		if errno != unix.EINTR {
			return int(n), syscallError("io_getevents", errno)
		}
	}
}

func syscallError(name string, errno unix.Errno) error {
	if errno == 0 {
		return nil
	}
	return os.NewSyscallError(name, errno)
}
