package millrace

import (
	"encoding/binary"
	"errors"
	"fmt"
)

var errVarintOverflow = errors.New("millrace: varint overflows 64 bits")

// ReadBE reads a big-endian unsigned integer of n bytes. It returns an error if n is not from 1 to
// 8. The error is io.EOF if the source ended before the first byte, and io.ErrUnexpectedEOF if the
// source ended within the integer. If ReadBE returns an error, it consumes nothing.
func (b *Reader) ReadBE(n int) (uint64, error) {
	p, err := b.readFixed(n)
	var v uint64
	for _, c := range p {
		v = v<<8 | uint64(c)
	}
	return v, err
}

// ReadLE is like [Reader.ReadBE], but reads a little-endian integer.
func (b *Reader) ReadLE(n int) (uint64, error) {
	p, err := b.readFixed(n)
	var v uint64
	for i := len(p) - 1; i >= 0; i-- {
		v = v<<8 | uint64(p[i])
	}
	return v, err
}

// readFixed reads n bytes. It returns an error if n is not from 1 to 8.
func (b *Reader) readFixed(n int) ([]byte, error) {
	if n < 1 || n > 8 {
		return nil, fmt.Errorf("millrace: integer of %d bytes; it has 1 to 8", n)
	}
	b.lastRuneSize = -1
	if b.w-b.r < n {
		if err := b.ensure(n); err != nil {
			return nil, err
		}
	}
	p := b.buf[b.r : b.r+n]
	b.r += n
	b.lastByte = int32(p[n-1])
	return p, nil
}

// ReadUvarint reads an unsigned integer in the encoding of [binary.Uvarint]: seven bits per byte,
// the lowest first. It returns an error and consumes nothing if the integer has more than 64 bits,
// if the encoding has more than ten bytes, or if the source ends within the encoding.
//
// If the integer is the length of a message, a deadline may pass after ReadUvarint has consumed the
// length, but before the whole message has arrived. To try again later, the caller must keep the
// length. Alternatively, the caller can Peek at the length, and then read the length and the
// message with one ReadChain.
func (b *Reader) ReadUvarint() (uint64, error) {
	v, _, err := b.ReadULEB128()
	return v, err
}

// ReadULEB128 is like [Reader.ReadUvarint], and also returns the length of the encoding in bytes.
// AV1 and WebAssembly limit this length.
func (b *Reader) ReadULEB128() (v uint64, size int, err error) {
	b.lastRuneSize = -1
	for size = 1; ; size++ {
		if err := b.ensure(size); err != nil {
			return 0, 0, err
		}
		c := b.buf[b.r+size-1]
		if size == binary.MaxVarintLen64 && c > 1 {
			return 0, 0, errVarintOverflow
		}
		v |= uint64(c&0x7f) << (7 * (size - 1))
		if c < 0x80 {
			b.r += size
			b.lastByte = int32(c)
			return v, size, nil
		}
	}
}
