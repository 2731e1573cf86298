package main

import "errors"

// A statusError is an error with an exit status of its own.
type statusError struct {
	error
	status int
}

func (e *statusError) Unwrap() error { return e.error }

// exitStatus returns the status that the process ends with for err, which is not nil.
func exitStatus(err error) int {
	if s, ok := errors.AsType[*statusError](err); ok {
		return s.status
	}
	return 1
}

// cannotLook gives an error of doctor's own, or of soak's, the status that distinguishes it from a bad finding.
func cannotLook(err error) error {
	if err == nil {
		return nil
	}
	return &statusError{err, 2}
}
