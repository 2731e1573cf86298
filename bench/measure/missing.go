package measure

import (
	"errors"
	"fmt"
	"os/exec"
)

// ErrMissing says that somebody cannot take part, because something is not installed.
var ErrMissing = errors.New("is not installed")

// Missing is an [ErrMissing] that says what is not there, and by which of Debian's packages it would be.
func Missing(what, packages string) error {
	return fmt.Errorf("%s %w (Debian: apt-get install %s)", what, ErrMissing, packages)
}

// Find returns the path of a program, or that it is missing. Debian has servers where only root's shell looks.
func Find(program, packages string) (string, error) {
	for _, name := range []string{program, "/usr/sbin/" + program} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", Missing(program, packages)
}

// Present returns the contenders for which ready finds all that they need. It says of each other one that it is left out; if
// nobody is left, that is an error, and so is whatever else ready finds.
func Present[C interface{ Name() string }](all []C, ready func(C) error, log func(string, ...any)) (there []C, err error) {
	var missing error
	for _, c := range all {
		switch err := ready(c); {
		case err == nil:
			there = append(there, c)
		case errors.Is(err, ErrMissing):
			missing = err
			log("%s is left out: %v", c.Name(), err)
		default:
			return nil, err
		}
	}
	if len(there) == 0 {
		return nil, missing
	}
	return there, nil
}
