//go:build !unix

package nettest

import "errors"

// narrow returns an error, because it is implemented only for Unix systems.
func narrow(uintptr, int) error { return errors.ErrUnsupported }
