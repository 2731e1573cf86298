//go:build !unix

package nettest

import "errors"

// narrow does nothing here: these systems have no way to do it.
func narrow(uintptr, int) error { return errors.ErrUnsupported }
