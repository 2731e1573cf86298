package chunk

import (
	"errors"
	"net/http"
	"syscall"
)

// statusOfSyscall returns the HTTP status after a failed attempt to open a file. If err comes from
// a system call, the status is 404, because Plan 9 has no error numbers. Otherwise statusOfSyscall
// returns 0.
func statusOfSyscall(err error) int {
	var text syscall.ErrorString
	if !errors.As(err, &text) {
		return 0
	}
	return http.StatusNotFound
}
