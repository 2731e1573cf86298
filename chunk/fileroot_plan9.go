package chunk

import (
	"errors"
	"net/http"
	"syscall"
)

// statusOfSyscall returns the HTTP status for a request, if err says that a system call to open the
// file has failed. Otherwise it returns 0. The status is always 404, because Plan 9 has no error
// numbers.
func statusOfSyscall(err error) int {
	var text syscall.ErrorString
	if !errors.As(err, &text) {
		return 0
	}
	return http.StatusNotFound
}
