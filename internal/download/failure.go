package download

import (
	"errors"
	"fmt"
	"time"
)

// A fatalError is one that another try would not mend.
type fatalError struct {
	err   error
	local bool // nor has it to do with the server: once the reason is gone, the same command goes on
}

func (e *fatalError) Error() string { return e.err.Error() }
func (e *fatalError) Unwrap() error { return e.err }

// A busyError is an answer that says, or may mean, that the next one will be another.
type busyError struct {
	reason string
	after  time.Duration // the server's wish, or 0
}

func (e *busyError) Error() string { return e.reason }

// A foreignError says that the bytes that are there belong to another address, and are not thrown away unasked.
type foreignError struct {
	part   string // its name
	origin origin // of its bytes
	wanted origin
}

func (e *foreignError) Error() string {
	of := "another address"
	if e.origin.Place != "" {
		of = fmt.Sprintf("%q", e.origin.Place)
		if e.origin.Place == e.wanted.Place {
			of += " with another query, and not for certain of the same file"
		}
	}
	return fmt.Sprintf("%s is of %s: --force discards it, and another FILE leaves it as it is", e.part, of)
}

// An interruptedError says that the context has ended.
type interruptedError struct{ cause error }

func (e *interruptedError) Error() string { return "interrupted" }
func (e *interruptedError) Unwrap() error { return e.cause }

// errDiscarded says that what there was is of no use any more, and that there is something else to be asked for.
var errDiscarded = errors.New("the server has something else than what is there, each time that it is asked")

// errTooLong says that a server does not mean what it says.
var errTooLong = errors.New("the server sends more bytes than it said")
