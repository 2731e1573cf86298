//go:build !unix

package server

import "errors"

func narrow(uintptr, int) error { return errors.ErrUnsupported }
