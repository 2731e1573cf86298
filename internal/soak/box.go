package soak

import (
	"encoding/binary"
	"errors"
)

// errBox says that a box of MP4 has another size than what is in it.
var errBox = errors.New("the boxes do not fit one another")

// walk calls f for each box in b, with its kind and what is in it, until f returns an error. f borrows what is in it.
func walk(b []byte, f func(kind string, in []byte) error) error {
	for len(b) > 0 {
		n := numbers{p: b}
		size := n.u32()
		if n.err != nil || size < boxHead || int64(size) > int64(len(b)) {
			return errBox
		}
		if err := f(string(b[4:boxHead]), b[boxHead:size]); err != nil {
			return err
		}
		b = b[size:]
	}
	return nil
}

// numbers are those that a box consists of. Behind the last of them they are 0, and err is errBox.
type numbers struct {
	p   []byte
	err error
}

// take returns the next n bytes, which are the caller's for as long as the box is.
func (n *numbers) take(size int) []byte {
	if size > len(n.p) {
		n.p, n.err = nil, errBox
		return make([]byte, size)
	}
	p := n.p[:size]
	n.p = n.p[size:]
	return p
}

func (n *numbers) skip(size int) { n.take(size) }
func (n *numbers) u32() uint32   { return binary.BigEndian.Uint32(n.take(4)) }
func (n *numbers) i64() int64    { return int64(binary.BigEndian.Uint64(n.take(8))) }
