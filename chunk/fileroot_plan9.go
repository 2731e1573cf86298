package chunk

import (
	"errors"
	"net/http"
	"syscall"
)

// statusOfSyscall returns the HTTP status of the answer when a system call for opening a file
// fails. It returns 0 if err is not the error of a system call. Plan 9 describes errors in words
// only.
func statusOfSyscall(err error) int {
	var text syscall.ErrorString
	if !errors.As(err, &text) {
		return 0
	}
	return http.StatusNotFound
}
