package stackbuf

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
)

var errNegativeRead = errors.New("stackbuf.Buffer: reader returned negative count from Read")

// ReadFrom adds what src gives to the contents until io.EOF, and returns how many bytes that was. It borrows src. The
// error is src's, unless that is io.EOF; what came before it is in b. ReadFrom panics with ErrTooLarge when there is no
// memory for so many bytes, and when src returns a negative count.
//
// If src tells how much it has, memory is taken once, to fit, unless b is a queue that has been read from. Sources that
// tell are an *os.File, an *io.LimitedReader, an in-memory reader, and anything with a method Len() int or Size()
// int64. Claims that nothing backs are believed as far as 64 times what has arrived. At once they are believed up to 64
// KiB for the limit of an io.LimitedReader or io.SectionReader over a source that does not tell, and up to 16 MiB for a
// type that is not of the standard library. If src does not tell, the memory doubles. It never grows merely to see
// io.EOF.
func (b *Buffer) ReadFrom(src io.Reader) (n int64, err error) {
	b.lastRead = nothing
	if b.r == b.w {
		b.Reset()
	}
	e := expect(src)
	// Not where many small sources come together, nor in a queue: both would have their contents moved each time.
	fit := b.r == 0 && e.total >= int64(b.Len())
	s, used := lendScratch(), 0
	defer func() { s.release(used) }()
	for {
		b.reserve(&e, fit)
		direct := b.spill != nil && b.Available() >= MinRead
		p := s[:]
		if direct {
			p = b.spill[b.w:]
		} else if !e.standard() {
			used = len(p) // whatever it says: a source may write to all that it is shown
		}
		m, err := src.Read(p)
		if m < 0 {
			panic(errNegativeRead)
		}
		e.arrived += int64(m)
		if direct {
			b.w += len(p[:m])
		} else {
			used = max(used, m)
			b.add(p[:m])
		}
		if err == io.EOF {
			return e.arrived, nil
		}
		if err != nil {
			return e.arrived, err
		}
	}
}

// reserve makes room for what is to come, as far as that is credible, when there is none.
func (b *Buffer) reserve(e *expectation, fit bool) {
	n := e.credible()
	switch {
	case n <= int64(b.Available()), b.spill != nil && b.Available() >= MinRead:
		return
	case n > int64(maxInt-b.Len()):
		panic(ErrTooLarge)
	case b.Cap() <= inlineSize && int(n) <= inlineSize-b.Len():
		return
	case b.canMoveDown(int(n)):
		b.makeRoom(int(n))
		return
	}
	size := b.Len() + int(n)
	if !fit {
		size = max(size, b.twice())
	}
	b.move(size)
}

// add is Write of bytes that were read into a scratch.
func (b *Buffer) add(p []byte) {
	b.makeRoom(len(p))
	b.w += copy(b.room(), p)
}

// WriteTo reads all of the contents and writes them to dst in one call of its Write, unless there are none. It borrows
// dst and returns how many bytes were written; what was not stays in b. The error is dst's, or io.ErrShortWrite. WriteTo
// panics when dst returns a count that cannot be.
func (b *Buffer) WriteTo(dst io.Writer) (n int64, err error) {
	b.lastRead = nothing
	if held := b.Len(); held > 0 {
		m, err := b.send(dst)
		if m < 0 || m > held {
			panic("stackbuf.Buffer.WriteTo: invalid Write count")
		}
		b.r += m
		if err != nil {
			return int64(m), err
		}
		if m != held {
			return int64(m), io.ErrShortWrite
		}
		n = int64(m)
	}
	b.Reset()
	return n, nil
}

// send is one Write of the contents.
func (b *Buffer) send(dst io.Writer) (int, error) {
	if b.spill != nil {
		return dst.Write(b.spill[b.r:b.w])
	}
	held := b.inline[b.r:b.w]
	switch dst := dst.(type) { // of the others the compiler has to assume that they keep what they are given
	case *bufio.Writer:
		if len(held) <= dst.Available() { // put where Write would copy it to: Write may also hand it on
			return dst.Write(append(dst.AvailableBuffer(), held...))
		}
	case *bytes.Buffer:
		return dst.Write(held)
	case *Buffer:
		return dst.Write(held)
	case *strings.Builder:
		return dst.Write(held)
	}
	return sendCopy(dst, held)
}

// sendCopy is a Write of p to a target that may keep it, for all that the compiler knows.
func sendCopy(dst io.Writer, p []byte) (int, error) {
	s := lendScratch()
	defer s.release(inlineSize)
	return dst.Write(s[:copy(s[:], p)])
}
