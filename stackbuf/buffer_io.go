package stackbuf

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
)

var errNegativeRead = errors.New("stackbuf.Buffer: reader returned negative count from Read")

// maxClaim is the maximum number of bytes that ReadFrom allocates in advance if it does not trust
// the length of the source. A remote peer may have chosen the limit of an io.LimitedReader, or the
// length that an unknown type reports.
const maxClaim = 64 << 10

// ReadFrom reads src until io.EOF, and appends the bytes to b. It borrows src, and returns the
// number of bytes read. If src returns another error, ReadFrom returns it, and b contains the bytes
// before it. ReadFrom panics with ErrTooLarge if memory runs out, and panics if src returns a
// negative count.
//
// The memory that ReadFrom allocates in advance depends on src:
//   - For an *os.File or an in-memory reader of the standard library, it usually fits exactly.
//   - For a type with a method Len() int, or an io.LimitedReader of another source, it is at most
//     64 KiB.
//   - For all other types, there is none, and the memory doubles when it is full.
func (b *Buffer) ReadFrom(src io.Reader) (n int64, err error) {
	b.lastRead = nothing
	if b.r == b.w {
		b.Reset()
	}
	b.growFor(sizeOf(src))
	s, used := lendScratch(), 0
	defer func() { s.release(used) }()
	for {
		direct := b.spill != nil && b.Available() >= MinRead
		p := s[:]
		if direct {
			p = b.spill[b.w:]
		} else {
			used = len(p) // a source may write more bytes than it reports
		}
		m, err := src.Read(p)
		if m < 0 {
			panic(errNegativeRead)
		}
		n += int64(m)
		if direct {
			b.w += len(p[:m])
		} else {
			b.add(p[:m])
		}
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}

// growFor makes room for n bytes before ReadFrom reads them. Usually the memory grows to exactly
// the size that is needed.
//
// If n is less than Len, or if b has been read from, the memory grows as in Write. This growth is
// faster for a program that reads many short sources into one Buffer: the contents are not moved
// for each source.
func (b *Buffer) growFor(n int64) {
	held := b.Len()
	switch {
	case n <= int64(b.Available()):
	case n > int64(maxInt-held):
		panic(ErrTooLarge)
	case b.Cap() <= inlineSize && held+int(n) <= inlineSize: // add uses the array
	case b.r == 0 && int(n) >= held:
		b.moveTo(held + int(n))
	default:
		b.makeRoom(int(n))
	}
}

const unknown = -1

// sizeOf returns the number of bytes that are left in r. If a peer may have chosen the number,
// sizeOf returns at most maxClaim. If the number cannot be determined, sizeOf returns the constant
// unknown.
func sizeOf(r io.Reader) int64 {
	switch r := r.(type) {
	case *bytes.Reader:
		return int64(r.Len())
	case *strings.Reader:
		return int64(r.Len())
	case *bytes.Buffer:
		return int64(r.Len())
	case *Buffer:
		return int64(r.Len())
	case *os.File:
		return fileSize(r)
	case *io.LimitedReader:
		n := sizeOf(r.R)
		if n == unknown {
			n = maxClaim
		}
		return max(min(r.N, n), 0) // N may be negative after the last read
	case interface{ Len() int }:
		return min(int64(r.Len()), maxClaim)
	}
	return unknown
}

// fileSize returns the number of bytes from the current offset of f to the end. It returns the
// constant unknown if f is a pipe or a device. A size of 0 is also unknown, because files that the
// kernel generates report the size 0.
func fileSize(f *os.File) int64 {
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return unknown
	}
	at, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		return unknown
	}
	return max(info.Size()-at, 0)
}

func (b *Buffer) add(p []byte) {
	b.makeRoom(len(p))
	b.w += copy(b.room(), p)
}

// WriteTo writes the contents to dst with one call to dst.Write, or none if b is empty. It removes
// the written bytes from b and returns their number. It borrows dst.
//
// If dst.Write fails, WriteTo returns its error. If dst.Write writes too few bytes without an
// error, WriteTo returns io.ErrShortWrite. WriteTo panics if dst.Write returns an invalid count.
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

func (b *Buffer) send(dst io.Writer) (int, error) {
	if b.spill != nil {
		return dst.Write(b.spill[b.r:b.w])
	}
	held := b.inline[b.r:b.w]
	switch dst := dst.(type) { // passing the array to another type would move b to the heap
	case *bufio.Writer:
		// Write may pass held to another writer, and b would then be on the heap. Instead, append
		// held to the free memory of dst, which Write does not copy again.
		if len(held) <= dst.Available() {
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

// sendCopy writes a copy of p to dst. p may be the array inside a Buffer. If dst received p itself,
// the compiler would have to assume that dst keeps p, and would move the Buffer to the heap.
func sendCopy(dst io.Writer, p []byte) (int, error) {
	s := lendScratch()
	defer s.release(inlineSize)
	return dst.Write(s[:copy(s[:], p)])
}
