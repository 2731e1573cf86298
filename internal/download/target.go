package download

import (
	"errors"
	"fmt"
	"io"
)

// A target is where the bytes go.
type target interface {
	// open prepares it, and returns how many bytes from an earlier run are there to be continued, and what they are of:
	// wanted, or an address that wanted is renewable with. It changes nothing of what is there. A target that could not
	// be opened need not be closed.
	open(wanted origin) (have int64, known origin, err error)
	// writer returns what takes the next bytes.
	writer() io.Writer
	// restart forgets all bytes.
	restart() error
	// remember notes what the bytes are of, before the first of them comes.
	remember(o origin) error
	// finish makes the bytes durable under their own name. Nothing but close may be called then.
	finish() error
	// close ends its life. What is not finished stays, to be gone on with.
	close() error
	// hint says after a failure that have bytes are there, and what comes of them, if there is anything to say.
	hint(have int64, prospect string) string
}

// A stream is a target that takes back nothing: standard output.
type stream struct {
	w     io.Writer
	begun bool
}

func (s *stream) open(wanted origin) (int64, origin, error) { return 0, wanted, nil }

func (s *stream) writer() io.Writer { s.begun = true; return writerOnly{s.w} }

func (s *stream) restart() error {
	if s.begun {
		return errors.New("it cannot be started over, because what was written to standard output stays written")
	}
	return nil
}

func (s *stream) remember(origin) error { return nil }
func (s *stream) finish() error         { return nil }
func (s *stream) close() error          { return nil }

func (s *stream) hint(have int64, _ string) string {
	if have == 0 {
		return ""
	}
	return fmt.Sprintf("%d bytes were written", have)
}

// writerOnly hides deadlines: others use a terminal or a pipe as well.
type writerOnly struct{ io.Writer }
