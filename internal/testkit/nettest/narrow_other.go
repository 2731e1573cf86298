//go:build !unix

package nettest

import "errors"

// narrow returns an error, because it can make a socket's buffer and segments small only on Unix
// systems.
func narrow(uintptr, int) error { return errors.ErrUnsupported }
