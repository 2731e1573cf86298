package measure

import (
	"errors"
	"fmt"
	"os/exec"
)

// ErrMissing means that something that a program or contender needs is not installed.
var ErrMissing = errors.New("is not installed")

// Missing returns an error that wraps [ErrMissing] and names the program and its Debian packages.
func Missing(program, packages string) error {
	return fmt.Errorf("%s %w (Debian: apt-get install %s)", program, ErrMissing, packages)
}

// Find returns the path of a program, or the error of [Missing]. It also looks in /usr/sbin, where
// Debian installs servers, because usually only root's PATH contains that directory.
func Find(program, packages string) (string, error) {
	for _, name := range []string{program, "/usr/sbin/" + program} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", Missing(program, packages)
}

// Present returns the contenders for which check returns nil. It logs and leaves out a contender
// whose error wraps [ErrMissing], and returns any other error. If no contender can run, Present
// returns the last error.
func Present[C any](all []C, name func(C) string, check func(C) error,
	logf func(string, ...any)) (present []C, err error) {
	var missing error
	for _, c := range all {
		switch err := check(c); {
		case err == nil:
			present = append(present, c)
		case errors.Is(err, ErrMissing):
			missing = err
			logf("%s is left out: %v", name(c), err)
		default:
			return nil, err
		}
	}
	if len(present) == 0 {
		return nil, missing
	}
	return present, nil
}
