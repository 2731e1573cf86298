package millrace

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
	"unicode/utf8"
)

// The methods of bufio.Reader, with the same meaning and errors.

var errNegativeWrite = errors.New("millrace: writer returned an impossible count from Write")

// Peek returns the next n bytes without consuming them. The slice is valid until the next call that
// reads, peeks or discards, or until Reset or Release. If Peek returns fewer than n bytes, the
// error says why. If n is above [Reader.Size], it is bufio.ErrBufferFull.
func (b *Reader) Peek(n int) ([]byte, error) {
	if n < 0 {
		return nil, bufio.ErrNegativeCount
	}
	b.lastByte, b.lastRuneSize = -1, -1
	for b.w-b.r < min(n, b.size) && (b.err == nil || b.hasAhead()) {
		b.extend(min(n, b.size))
	}
	if avail := b.w - b.r; avail < n {
		if n > b.size && b.err != errReleased {
			avail = min(avail, b.size)
			return b.buf[b.r : b.r+avail : b.r+avail], bufio.ErrBufferFull
		}
		return b.buf[b.r : b.r+avail : b.r+avail], b.readErr()
	}
	return b.buf[b.r : b.r+n : b.r+n], nil
}

// Discard skips the next n bytes and returns the number of skipped bytes. If this number is less
// than n, the error says why.
func (b *Reader) Discard(n int) (discarded int, err error) {
	if n < 0 {
		return 0, bufio.ErrNegativeCount
	}
	if n == 0 {
		return 0, nil
	}
	b.lastByte, b.lastRuneSize = -1, -1
	for discarded < n {
		if b.r == b.w {
			if err := b.fill(); err != nil {
				return discarded, err
			}
		}
		m := min(n-discarded, b.w-b.r)
		b.r += m
		discarded += m
	}
	return discarded, nil
}

// Read copies buffered bytes into p, which it borrows. If nothing is buffered, it reads from the
// source once. If p has at least [Reader.Size] bytes, that read goes directly into p. At the end of
// the source Read returns 0, io.EOF.
func (b *Reader) Read(p []byte) (n int, err error) {
	if len(p) == 0 {
		if b.Buffered() > 0 {
			return 0, nil
		}
		return 0, b.readErr()
	}
	if b.r == b.w {
		if b.err != nil && !b.hasAhead() {
			return 0, b.readErr()
		}
		if len(p) >= b.size && !b.hasAhead() && (b.more == nil || b.more.next == nil) {
			return b.readDirect(p)
		}
		b.fillOnce()
		if b.r == b.w {
			return 0, b.readErr()
		}
	}
	n = copy(p, b.buf[b.r:b.w])
	b.r += n
	b.lastByte = int32(p[n-1])
	b.lastRuneSize = -1
	return n, nil
}

// readDirect reads from src into p, which is the caller's memory. It must be called only if no
// bytes are buffered.
func (b *Reader) readDirect(p []byte) (int, error) {
	if b.sock != nil || b.wrapped {
		b.park()
	}
	n, err := b.src.Read(p)
	if n < 0 || n > len(p) {
		panic(errBadCount)
	}
	b.err = err
	if n > 0 {
		b.lastByte = int32(p[n-1])
		b.lastRuneSize = -1
	}
	return n, b.readErr()
}

// ReadByte returns the next byte.
func (b *Reader) ReadByte() (byte, error) {
	b.lastRuneSize = -1
	if b.r == b.w {
		if err := b.fill(); err != nil {
			return 0, err
		}
	}
	c := b.buf[b.r]
	b.r++
	b.lastByte = int32(c)
	return c, nil
}

// UnreadByte unreads the last byte, so that the next read returns it again. If there is no byte to
// unread, it returns bufio.ErrInvalidUnreadByte. Peek, Discard, Skip, WriteTo, ReadRange, ReadRef,
// ReadChain and ReadChainDelim leave no byte to unread.
func (b *Reader) UnreadByte() error {
	if b.lastByte < 0 {
		return bufio.ErrInvalidUnreadByte
	}
	c := byte(b.lastByte)
	if b.r > 0 && !b.parked && b.buf[b.r-1] == c {
		b.r--
	} else {
		b.prepend(c)
	}
	b.lastByte, b.lastRuneSize = -1, -1
	return nil
}

// prepend puts the byte c before the buffered bytes. UnreadByte calls prepend if c is no longer in
// the buffer.
func (b *Reader) prepend(c byte) {
	d := b.pool.Get(1 + b.w - b.r)
	p := d.Bytes()
	p[0] = c
	n := 1 + copy(p[1:], b.buf[b.r:b.w])
	var front Chain
	front.push(d.Freeze(n))
	b.retire()
	b.putBack(&front)
}

// ReadRune returns the next UTF-8 character and its size in bytes. For an invalid byte it returns
// U+FFFD and 1.
func (b *Reader) ReadRune() (r rune, size int, err error) {
	for b.w-b.r < utf8.UTFMax && !utf8.FullRune(b.buf[b.r:b.w]) && (b.err == nil || b.hasAhead()) {
		b.extend(utf8.UTFMax)
	}
	b.lastRuneSize = -1
	if b.r == b.w {
		return 0, 0, b.readErr()
	}
	r, size = utf8.DecodeRune(b.buf[b.r:b.w])
	b.r += size
	b.lastByte = int32(b.buf[b.r-1])
	b.lastRuneSize = int32(size)
	return r, size, nil
}

// UnreadRune makes the next read return the last rune again. If the last call was not ReadRune, the
// error is bufio.ErrInvalidUnreadRune.
func (b *Reader) UnreadRune() error {
	if b.lastRuneSize < 0 || b.r < int(b.lastRuneSize) || b.parked {
		return bufio.ErrInvalidUnreadRune
	}
	b.r -= int(b.lastRuneSize)
	b.lastByte, b.lastRuneSize = -1, -1
	return nil
}

// ReadSlice returns the bytes up to and including the first delimiter delim, without a copy. The
// slice is valid until the next read, Reset or Release. If an error comes first, ReadSlice returns
// all buffered bytes and the error. If the next [Reader.Size] bytes do not contain the delimiter,
// the error is bufio.ErrBufferFull.
func (b *Reader) ReadSlice(delim byte) (line []byte, err error) {
	for searched := 0; ; {
		end := min(b.w, b.r+b.size)
		reach := b.buf[b.r:end:end]
		if i := bytes.IndexByte(reach[searched:], delim); i >= 0 {
			line = reach[:searched+i+1]
			break
		}
		if b.err != nil && !b.hasAhead() && len(reach) == b.w-b.r {
			line, err = reach, b.readErr()
			break
		}
		if len(reach) == b.size {
			line, err = reach, bufio.ErrBufferFull
			break
		}
		searched = len(reach)
		b.extend(min(b.size, searched+sliceStep))
	}
	b.r += len(line)
	if len(line) > 0 {
		b.lastByte = int32(line[len(line)-1])
		b.lastRuneSize = -1
	}
	return line, err
}

// sliceStep is the number of bytes that ReadSlice copies at a time if a line continues in another
// piece of memory, as with [NewReaderFrom]. It is small, because ReadSlice may also copy bytes
// after the line.
const sliceStep = 64

// ReadLine returns the next line without its end ("\n" or "\r\n"). The line is valid until the next
// read, Reset or Release. A line longer than [Reader.Size] comes in parts; isPrefix is true for all
// parts but the last.
func (b *Reader) ReadLine() (line []byte, isPrefix bool, err error) {
	line, err = b.ReadSlice('\n')
	if err == bufio.ErrBufferFull {
		// The line may be empty if the source itself has returned bufio.ErrBufferFull.
		if last := len(line) - 1; last >= 0 && line[last] == '\r' {
			b.r-- // the '\r' may belong to a "\r\n" that continues beyond the limit
			line = line[:last]
		}
		return line, true, nil
	}
	if len(line) == 0 {
		if err != nil {
			line = nil
		}
		return line, false, err
	}
	if n := len(line) - 1; line[n] == '\n' {
		line = bytes.TrimSuffix(line[:n], []byte("\r"))
	}
	return line, false, nil
}

// ReadBytes reads up to and including the first delimiter delim, and returns a copy of the bytes,
// which the caller owns. If an error comes before the delimiter, ReadBytes returns the bytes read
// so far and the error.
func (b *Reader) ReadBytes(delim byte) ([]byte, error) {
	var all []byte
	for {
		part, err := b.ReadSlice(delim)
		all = append(all, part...)
		if err != bufio.ErrBufferFull {
			if all == nil {
				all = []byte{} // not nil, as in bufio
			}
			return all, err
		}
	}
}

// ReadString is like [Reader.ReadBytes], but returns a string.
func (b *Reader) ReadString(delim byte) (string, error) {
	part, err := b.ReadSlice(delim)
	if err != bufio.ErrBufferFull {
		return string(part), err
	}
	var all strings.Builder
	for {
		all.Write(part)
		if err != bufio.ErrBufferFull {
			return all.String(), err
		}
		part, err = b.ReadSlice(delim)
	}
}

// WriteTo writes the buffered bytes, and then the rest of the source, to w. The Write method of w
// must not keep the bytes.
//
// If the source has a method WriteTo, the Reader calls it for the rest of the source. Otherwise, if
// w has a method ReadFrom, the Reader calls that method. The kernel can then often move the bytes
// without copying them to the program.
func (b *Reader) WriteTo(w io.Writer) (n int64, err error) {
	b.lastByte, b.lastRuneSize = -1, -1
	for {
		for b.r < b.w || b.hasAhead() {
			if b.r == b.w {
				b.advance()
			}
			m, err := b.writeBuffered(w)
			n += m
			if err != nil {
				return n, err
			}
		}
		if b.err != nil {
			break
		}
		if b.src != nil {
			if b.sock != nil || b.wrapped {
				b.park()
			}
			if src, ok := b.src.(io.WriterTo); ok {
				m, err := src.WriteTo(w)
				return n + m, err
			}
			if dst, ok := w.(io.ReaderFrom); ok {
				m, err := dst.ReadFrom(b.src)
				return n + m, err
			}
		}
		b.probed = true // use a block for the next read: writing a single byte would cost more
		if err := b.fill(); err != nil {
			b.err = err
		}
	}
	if b.err == io.EOF {
		b.err = nil
	}
	return n, b.readErr()
}

func (b *Reader) writeBuffered(w io.Writer) (int64, error) {
	n, err := w.Write(b.buf[b.r:b.w])
	if n < 0 || n > b.w-b.r {
		panic(errNegativeWrite)
	}
	b.r += n
	if err == nil && b.r < b.w {
		err = io.ErrShortWrite
	}
	return int64(n), err
}
