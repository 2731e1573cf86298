//go:build !unix

package nettest

import "errors"

// narrow is implemented only for Unix systems.
func narrow(uintptr, int) error { return errors.ErrUnsupported }
