//go:build !plan9

package chunk

import (
	"errors"
	"net/http"
	"syscall"
)

// statusOfSyscall returns the HTTP status for an error of a system call, and 0 for any other error.
func statusOfSyscall(err error) int {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return 0
	}
	switch errno {
	case syscall.ENOTDIR, syscall.EINVAL, syscall.ENAMETOOLONG, syscall.ELOOP:
		return http.StatusNotFound // no file can have such a name
	case syscall.ENXIO:
		return http.StatusForbidden // opening a Unix socket fails like this
	}
	return http.StatusInternalServerError
}
