package measure

import (
	"errors"
	"fmt"
	"os/exec"
)

// ErrMissing is the error for a program or a contender that cannot run because something is not
// installed.
var ErrMissing = errors.New("is not installed")

// Missing returns an [ErrMissing] that names the missing program and the Debian packages that
// contain it.
func Missing(what, packages string) error {
	return fmt.Errorf("%s %w (Debian: apt-get install %s)", what, ErrMissing, packages)
}

// Find returns the path of a program, or an [ErrMissing]. It also looks in /usr/sbin, where Debian
// installs servers and which is only in root's PATH.
func Find(program, packages string) (string, error) {
	for _, name := range []string{program, "/usr/sbin/" + program} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", Missing(program, packages)
}

// Present returns the contenders for which ready returns nil. It logs each contender that is left
// out because of an [ErrMissing]. The error is an ErrMissing if no contender remains. Any other
// error of ready is returned at once.
func Present[C any](all []C, name func(C) string, ready func(C) error,
	log func(string, ...any)) (present []C, err error) {
	var missing error
	for _, c := range all {
		switch err := ready(c); {
		case err == nil:
			present = append(present, c)
		case errors.Is(err, ErrMissing):
			missing = err
			log("%s is left out: %v", name(c), err)
		default:
			return nil, err
		}
	}
	if len(present) == 0 {
		return nil, missing
	}
	return present, nil
}
