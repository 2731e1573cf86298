//go:build !plan9

package chunk

import (
	"errors"
	"net/http"
	"syscall"
)

// statusOfSyscall returns the HTTP status after a failed attempt to open a file. If err does not
// come from a system call, it returns 0.
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
