//go:build !plan9

package redisbuf

import (
	"errors"
	"syscall"
)

// closedByServer reports whether the write error err means that the server has closed the
// connection. The remaining replies can then be read without blocking.
func closedByServer(err error) bool {
	return (errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)) &&
		!isA[*ReaderError](err)
}
