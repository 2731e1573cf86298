//go:build !unix

package nettest

import "errors"

// narrow returns an error, because these systems do not support it.
func narrow(uintptr, int) error { return errors.ErrUnsupported }
