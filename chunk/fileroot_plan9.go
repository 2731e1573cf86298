package chunk

import (
	"errors"
	"net/http"
	"syscall"
)

// statusOfSyscall returns the HTTP status after a failed attempt to open a file. Plan 9 has no
// error numbers, so the status is always 404. If err does not come from a system call, it returns
// 0.
func statusOfSyscall(err error) int {
	var text syscall.ErrorString
	if !errors.As(err, &text) {
		return 0
	}
	return http.StatusNotFound
}
