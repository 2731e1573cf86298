// Package sourcetest has two io.Readers for tests of decoders. Unsteady is as irregular as a
// connection, and Loop has no end.
package sourcetest

import (
	"errors"
	"io"
	"math/rand/v2"
)

// ErrUnsteady is an error that [Unsteady.Read] returns now and then. Reading can continue after it.
var ErrUnsteady = errors.New("sourcetest: nothing for now")

// Unsteady is an io.Reader that returns the bytes of Rest in portions of random size. Some reads
// return no bytes, and some return ErrUnsteady.
type Unsteady struct {
	Rest string
	Rand *rand.Rand
}

// Read moves a random number of bytes, which may be 0, from u.Rest to p. It may return ErrUnsteady,
// with or without bytes. It returns io.EOF with the last bytes.
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

// A Loop is an io.Reader that returns Bytes again and again.
type Loop struct {
	Bytes string
	at    int
}

// Read fills p, and never returns an error. It continues after the last byte of the previous Read.
func (l *Loop) Read(p []byte) (n int, err error) {
	for n < len(p) {
		m := copy(p[n:], l.Bytes[l.at:])
		l.at = (l.at + m) % len(l.Bytes)
		n += m
	}
	return n, nil
}
