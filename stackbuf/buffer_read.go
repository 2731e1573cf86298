package stackbuf

import (
	"bytes"
	"errors"
	"io"
	"unicode/utf8"
)

var (
	errUnreadByte = errors.New(
		"stackbuf.Buffer: UnreadByte: previous operation was not a successful read")
	errUnreadRune = errors.New(
		"stackbuf.Buffer: UnreadRune: previous operation was not a successful ReadRune")
)

// Peek returns the next n bytes without consuming them. If there are fewer than n bytes, it returns
// all bytes and io.EOF. The slice is valid until the next call that changes b.
func (b *Buffer) Peek(n int) ([]byte, error) {
	p := b.Bytes()
	if len(p) < n {
		return p, io.EOF
	}
	return p[:n], nil
}

// Read moves up to len(p) bytes of the contents to p and returns their number. If b is empty, the
// error is io.EOF, or nil if len(p) is 0.
func (b *Buffer) Read(p []byte) (n int, err error) {
	b.lastRead = nothing
	if b.r == b.w {
		b.Reset()
		if len(p) == 0 {
			return 0, nil
		}
		return 0, io.EOF
	}
	n = copy(p, b.Bytes())
	b.r += n
	if n > 0 {
		b.lastRead = lastByte
	}
	return n, nil
}

// Next returns and consumes the next n bytes, or all bytes if there are fewer. The slice is valid
// until the next call that changes b.
func (b *Buffer) Next(n int) []byte {
	b.lastRead = nothing
	p := b.Bytes()
	if n < len(p) {
		p = p[:n]
	}
	b.r += len(p)
	if len(p) > 0 {
		b.lastRead = lastByte
	}
	return p
}

// ReadByte returns the next byte, or io.EOF at the end.
func (b *Buffer) ReadByte() (byte, error) {
	if b.r == b.w {
		b.Reset()
		return 0, io.EOF
	}
	r := b.r
	b.r = r + 1
	b.lastRead = lastByte
	if b.spill == nil {
		return b.inline[r], nil
	}
	return b.spill[r], nil
}

// ReadRune returns the next UTF-8 encoded rune and its length, or io.EOF. Each byte that is not
// UTF-8 is returned as U+FFFD with length 1.
func (b *Buffer) ReadRune() (r rune, size int, err error) {
	if b.r == b.w {
		b.Reset()
		return 0, 0, io.EOF
	}
	p := b.Bytes()
	if c := p[0]; c < utf8.RuneSelf {
		b.r++
		b.lastRead = 1
		return rune(c), 1, nil
	}
	r, size = utf8.DecodeRune(p)
	b.r += size
	b.lastRead = lastRead(size)
	return r, size, nil
}

// UnreadRune makes the next read return the last rune again. It returns an error if the last read
// or write was not a successful ReadRune.
func (b *Buffer) UnreadRune() error {
	if b.lastRead <= nothing {
		return errUnreadRune
	}
	if b.r >= int(b.lastRead) {
		b.r -= int(b.lastRead)
	}
	b.lastRead = nothing
	return nil
}

// UnreadByte makes the next read begin with the last byte that was read. It returns an error if the
// last read or write was not a read of at least one byte.
//
// If a Grow has moved the contents since the read, UnreadByte does nothing and returns no error, as
// in bytes.Buffer.
func (b *Buffer) UnreadByte() error {
	if b.lastRead == nothing {
		return errUnreadByte
	}
	b.lastRead = nothing
	if b.r > 0 {
		b.r--
	}
	return nil
}

// ReadBytes returns a copy of the bytes up to and including the first delimiter delim. If there is
// none, it returns a copy of all contents and io.EOF.
func (b *Buffer) ReadBytes(delim byte) (line []byte, err error) {
	p, err := b.readTo(delim)
	return append(line, p...), err
}

// ReadString is like [Buffer.ReadBytes], but returns a string.
func (b *Buffer) ReadString(delim byte) (line string, err error) {
	p, err := b.readTo(delim)
	return string(p), err
}

func (b *Buffer) readTo(delim byte) (line []byte, err error) {
	line = b.Bytes()
	if i := bytes.IndexByte(line, delim); i >= 0 {
		line = line[:i+1]
	} else {
		err = io.EOF
	}
	b.r += len(line)
	b.lastRead = lastByte
	return line, err
}
