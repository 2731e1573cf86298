package server

import (
	"errors"
	"fmt"
)

// A framing finds the body of an HTTP/1.1 request in what comes after its head. One of the two forms is in use: a
// number of bytes, or chunks.
type framing struct {
	chunked bool
	done    bool  // the body has ended
	excess  bool  // there was something behind it
	left    int64 // bytes of the body, or of the chunk, to come

	state    chunkState
	overhead int // bytes of the present line, or of all trailers, so far
}

// A chunkState is where in a chunked body the next byte stands.
type chunkState uint8

const (
	inSize       chunkState = iota // hex digits
	inPadding                      // blanks behind them, up to the end of the line or a semicolon
	inExtension                    // behind a semicolon, up to the end of the line
	inSizeEnd                      // the LF of that line
	inData                         //
	inDataCR                       // behind the data
	inDataLF                       //
	inTrailer                      // the start of a line behind the last chunk
	inTrailerRow                   // within such a line
	inTrailerEnd                   // its LF
	inEnd                          // the LF of the empty line
)

const (
	maxChunkLine = 4 << 10  // size and extensions of a chunk
	maxTrailers  = 16 << 10 // all trailers
)

var (
	errChunkSize = errors.New("bad chunked body: no chunk size where one is due")
	errChunkEnd  = errors.New("bad chunked body: a chunk does not end where its size says")
	errChunkLine = fmt.Errorf("bad chunked body: a chunk's line is above %d bytes", maxChunkLine)
	errTrailers  = fmt.Errorf("bad chunked body: trailers above %d bytes", maxTrailers)
)

// newFraming returns the framing of a body of n bytes, or of chunks if n is negative.
func newFraming(n int64) framing {
	if n < 0 {
		return framing{chunked: true}
	}
	return framing{left: n, done: n == 0}
}

// strip moves what is body in p to its front and returns how much that is. After an error the framing is lost.
func (f *framing) strip(p []byte) (int, error) {
	if !f.chunked {
		n := int(min(f.left, int64(len(p))))
		f.left -= int64(n)
		f.done = f.left == 0
		f.excess = n < len(p)
		return n, nil
	}
	kept, i := 0, 0
	for i < len(p) && !f.done {
		if f.state != inData {
			if err := f.byte(p[i]); err != nil {
				return kept, err
			}
			i++
			continue
		}
		n := int(min(f.left, int64(len(p)-i)))
		if kept != i {
			copy(p[kept:], p[i:i+n])
		}
		kept, i = kept+n, i+n
		if f.left -= int64(n); f.left == 0 {
			f.state = inDataCR
		}
	}
	f.excess = i < len(p)
	return kept, nil
}

// byte takes a byte that is not data. Lines end with CR LF and nothing else.
func (f *framing) byte(b byte) error {
	switch f.state {
	case inSize, inPadding, inExtension, inSizeEnd:
		return f.sizeLine(b)
	case inDataCR:
		if b != '\r' {
			return errChunkEnd
		}
		f.state = inDataLF
	case inDataLF:
		if b != '\n' {
			return errChunkEnd
		}
		f.state, f.overhead = inSize, 0
	default:
		return f.trailer(b)
	}
	return nil
}

// sizeLine takes a byte of the line in front of a chunk: hex digits, perhaps an extension.
func (f *framing) sizeLine(b byte) error {
	digits := f.overhead
	if f.overhead++; f.overhead > maxChunkLine {
		return errChunkLine
	}
	switch {
	case f.state == inSizeEnd:
		if b != '\n' {
			return errChunkSize
		}
		f.overhead = 0
		if f.state = inData; f.left == 0 {
			f.state = inTrailer
		}
	case b == '\n' || digits == 0 && b == '\r':
		return errChunkSize
	case b == '\r':
		f.state = inSizeEnd
	case f.state == inExtension:
	case digits > 0 && (b == ' ' || b == '\t'):
		f.state = inPadding
	case digits > 0 && b == ';':
		f.state = inExtension // also behind blanks: the BWS of RFC 9112, section 7.1.1
	case f.state == inPadding:
		return errChunkSize
	default:
		v, ok := hexValue(b)
		if !ok || digits >= 15 { // 60 bits are enough for everybody
			return errChunkSize
		}
		f.left = f.left<<4 | int64(v)
	}
	return nil
}

// trailer takes a byte behind the last chunk: lines that are passed over, up to an empty one.
func (f *framing) trailer(b byte) error {
	if f.overhead++; f.overhead > maxTrailers {
		return errTrailers
	}
	switch f.state {
	case inTrailer:
		if f.state = inTrailerRow; b == '\r' {
			f.state = inEnd
		}
	case inTrailerRow:
		if b == '\r' {
			f.state = inTrailerEnd
		}
	default:
		if b != '\n' {
			return errChunkEnd
		}
		f.done = f.state == inEnd
		f.state = inTrailer
	}
	return nil
}

func hexValue(b byte) (byte, bool) {
	switch {
	case '0' <= b && b <= '9':
		return b - '0', true
	case 'a' <= b && b <= 'f':
		return b - 'a' + 10, true
	case 'A' <= b && b <= 'F':
		return b - 'A' + 10, true
	}
	return 0, false
}
