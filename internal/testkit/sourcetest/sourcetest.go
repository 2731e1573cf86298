// Package sourcetest has an io.Reader that is as irregular as a connection, and one without an end,
// for tests of decoders.
package sourcetest

import (
	"errors"
	"io"
	"math/rand/v2"
)

// ErrUnsteady is returned by an Unsteady between bytes. Reading can continue after it.
var ErrUnsteady = errors.New("sourcetest: nothing for now")

// Unsteady returns the bytes of Rest in portions of any size, between empty reads and errors. It
// returns io.EOF with the last bytes.
type Unsteady struct {
	Rest string
	Rand *rand.Rand
}

// Read implements io.Reader.
func (u *Unsteady) Read(p []byte) (int, error) {
	switch u.Rand.IntN(6) {
	case 0:
		return 0, ErrUnsteady
	case 1:
		return 0, nil
	}
	n := copy(p[:min(len(p), 1<<u.Rand.IntN(17))], u.Rest)
	u.Rest = u.Rest[n:]
	switch {
	case len(u.Rest) == 0:
		return n, io.EOF
	case u.Rand.IntN(6) == 0:
		return n, ErrUnsteady
	}
	return n, nil
}

// Loop returns the same bytes again and again.
type Loop struct {
	Bytes string
	at    int
}

// Read implements io.Reader. It fills p.
func (l *Loop) Read(p []byte) (n int, err error) {
	for n < len(p) {
		m := copy(p[n:], l.Bytes[l.at:])
		l.at = (l.at + m) % len(l.Bytes)
		n += m
	}
	return n, nil
}
