//go:build !plan9

package chunk

import (
	"errors"
	"net/http"
	"syscall"
)

func statusOfSyscall(err error) int {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return http.StatusNotFound // the name leads out of the root
	}
	switch errno {
	case syscall.ENOTDIR, syscall.EINVAL, syscall.ENAMETOOLONG, syscall.ELOOP:
		return http.StatusNotFound // no file can have such a name
	case syscall.ENXIO:
		return http.StatusForbidden // opening a Unix socket fails like this
	}
	return http.StatusInternalServerError
}
