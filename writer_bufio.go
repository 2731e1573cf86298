package millrace

import (
	"io"
	"unicode/utf8"
)

// The methods of bufio.Writer, with the same meaning and errors. Flush and Reset are in writer.go.

// Size returns the maximum number of buffered bytes.
func (w *Writer) Size() int { return w.size }

// Buffered returns the number of accepted bytes that have not been sent.
func (w *Writer) Buffered() int { return w.queued() + w.n }

// Available returns the number of bytes that fit into the buffer.
func (w *Writer) Available() int { return w.size - w.Buffered() }

// AvailableBuffer returns an empty slice with a capacity of [Writer.Available] bytes. Append to the
// slice and pass the result to Write, which then copies nothing. The slice is valid until the next
// method call on w. The Writer holds this memory until Flush.
func (w *Writer) AvailableBuffer() []byte {
	if w.reserve(); w.buf == nil {
		return nil
	}
	return w.buf[w.n:w.n:len(w.buf)]
}

// Write writes the bytes of p, which it borrows. It returns the number of bytes accepted. If the
// number is less than len(p), the error says why. If nothing is buffered and p does not fit into
// the buffer, Write passes p to the destination directly.
func (w *Writer) Write(p []byte) (n int, err error) {
	if len(p) < len(w.buf)-w.n {
		w.n += copy(w.buf[w.n:], p)
		return len(p), nil
	}
	for len(p) > w.Available() && w.err == nil {
		var m int
		if w.Buffered() == 0 {
			m, w.err = w.send(p)
		} else {
			m = appendToBuffer(w, p)
			w.Flush()
		}
		n += m
		p = p[m:]
	}
	if w.err != nil || len(p) == 0 {
		w.dropEmpty()
		return n, w.err
	}
	return n + appendToBuffer(w, p), nil
}

// appendToBuffer appends as many bytes of p to w's block as fit, and returns the number of bytes
// appended.
func appendToBuffer[T string | []byte](w *Writer, p T) int {
	w.reserve()
	n := copy(w.buf[w.n:], p)
	w.n += n
	return n
}

// WriteString writes the bytes of s, like Write. If nothing is buffered and s does not fit into the
// buffer, WriteString calls the destination's WriteString method, if there is one.
func (w *Writer) WriteString(s string) (n int, err error) {
	if len(s) < len(w.buf)-w.n {
		w.n += copy(w.buf[w.n:], s)
		return len(s), nil
	}
	direct, ok := w.dst.(io.StringWriter)
	for len(s) > w.Available() && w.err == nil {
		var m int
		if ok && w.Buffered() == 0 {
			m, w.err = direct.WriteString(s)
			w.err = checkCount(m, len(s), w.err)
		} else {
			m = appendToBuffer(w, s)
			w.Flush()
		}
		n += m
		s = s[m:]
	}
	if w.err != nil || len(s) == 0 {
		w.dropEmpty()
		return n, w.err
	}
	return n + appendToBuffer(w, s), nil
}

// WriteByte writes one byte.
func (w *Writer) WriteByte(c byte) error {
	if w.n >= len(w.buf) {
		if w.err == nil && w.Available() == 0 {
			w.Flush()
		}
		if w.err != nil {
			return w.err
		}
		w.reserve()
	}
	w.buf[w.n] = c
	w.n++
	return nil
}

// WriteRune writes the UTF-8 encoding of r and returns its size in bytes. For an invalid rune it
// writes U+FFFD.
func (w *Writer) WriteRune(r rune) (size int, err error) {
	if uint32(r) < utf8.RuneSelf { // uint32, because a rune may be negative
		if err := w.WriteByte(byte(r)); err != nil {
			return 0, err
		}
		return 1, nil
	}
	if w.Available() < utf8.UTFMax {
		w.Flush() // so that no write divides a character
	}
	var p [utf8.UTFMax]byte
	return w.Write(p[:utf8.EncodeRune(p[:], r)])
}

// ReadFrom reads src until io.EOF, and writes the bytes. It returns the number of bytes read. It
// borrows src. If nothing is buffered and the destination has a method ReadFrom, as a *net.TCPConn
// has, ReadFrom calls that method.
func (w *Writer) ReadFrom(src io.Reader) (total int64, err error) {
	direct, ok := w.dst.(io.ReaderFrom)
	for empty := 0; err == nil; {
		if w.err == nil && w.Available() == 0 {
			w.Flush()
		}
		if w.err != nil {
			return total, w.err
		}
		if ok && w.Buffered() == 0 {
			var n int64
			n, w.err = direct.ReadFrom(src)
			w.dropEmpty()
			return total + n, w.err
		}
		w.reserve()
		var n int
		n, err = src.Read(w.buf[w.n:])
		if n < 0 || n > len(w.buf)-w.n {
			panic(errBadCount)
		}
		w.n += n
		total += int64(n)
		if n > 0 {
			empty = 0
		} else if empty++; empty == maxEmptyReads && err == nil {
			err = io.ErrNoProgress
		}
	}
	if err == io.EOF {
		err = nil
		if w.Available() == 0 {
			err = w.Flush()
		}
	}
	w.dropEmpty()
	return total, err
}

func (w *Writer) dropEmpty() {
	if w.err != nil || w.Buffered() == 0 {
		w.drop()
	}
}
