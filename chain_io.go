package millrace

import (
	"fmt"
	"io"
	"iter"
	"net"
	"slices"
	"sync"
)

// maxVector is the maximum number of pieces in one writev: IOV_MAX on Linux and macOS.
const maxVector = 1024

// The sizes of the first and the largest block that ReadFrom fills. Each block is twice as large as
// the previous one.
const (
	readFromFirst = 4 << 10
	readFromMost  = 64 << 10
)

// WriteTo joins short pieces if the writer is not a socket. It copies a piece shorter than
// joinBelow, together with the pieces after it, into a buffer of up to joinMost bytes, and passes
// the buffer to one Write. joinMost is the size of a TLS record (RFC 8446, section 5.1).
const (
	joinBelow = 8 << 10
	joinMost  = 16 << 10
)

// All yields the pieces in order. Each slice is valid until c next changes or is released.
func (c *Chain) All() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		c.released.check()
		pieces := c.pieces()
		for i := range pieces {
			if !yield(pieces[i].Bytes()) {
				return
			}
		}
	}
}

// CopyTo copies bytes from the start of c into p, until p is full or c ends. It returns the number
// of bytes copied. It borrows p and consumes nothing.
func (c *Chain) CopyTo(p []byte) int { return c.copyAt(p, 0) }

// AppendTo appends a copy of all bytes of c to p, and returns the extended slice. It consumes
// nothing.
func (c *Chain) AppendTo(p []byte) []byte {
	p = slices.Grow(p, c.size)
	n := len(p)
	return p[:n+c.CopyTo(p[n:n+c.size])]
}

// copyAt is like CopyTo, but begins at an offset in c. It requires 0 ≤ offset ≤ c.size.
func (c *Chain) copyAt(p []byte, offset int) int {
	c.released.check()
	if offset == c.size || len(p) == 0 {
		return 0
	}
	i, off := c.find(offset)
	return c.copyFrom(p, i, off)
}

// copyFrom is like CopyTo, but begins at an offset within piece i.
func (c *Chain) copyFrom(p []byte, i, offset int) (n int) {
	pieces := c.pieces()
	for ; i < len(pieces) && n < len(p); i++ {
		n += copy(p[n:], pieces[i].Bytes()[offset:])
		offset = 0
	}
	return n
}

// Bytes returns all of c as one slice, which is valid until c next changes or is released. If c has
// more than one piece, Bytes copies them into one block, which replaces the pieces.
func (c *Chain) Bytes() []byte {
	c.released.check()
	switch pieces := c.pieces(); len(pieces) {
	case 0:
		return nil
	case 1:
		return pieces[0].Bytes()
	}
	d := defaultPool.Get(c.size)
	r := d.Freeze(c.CopyTo(d.Bytes()))
	c.Release()
	c.push(r)
	return c.pieces()[0].Bytes()
}

// ReadFrom reads src until io.EOF, and appends the bytes to c. It returns the number of bytes read.
// It borrows src. Bytes that arrived before an error stay in c. If src may never end, wrap it in an
// io.LimitedReader.
//
// If src is a [*Reader], ReadFrom takes over the Reader's blocks without copying. Otherwise
// ReadFrom reads into the free memory after the last piece, if nothing else uses that piece's
// block, and then into blocks of [DefaultPool].
func (c *Chain) ReadFrom(src io.Reader) (int64, error) {
	if r, ok := src.(*Reader); ok {
		return r.drainTo(c)
	}
	var total int64
	size, n, err := readFromFirst, 0, error(nil)
	if last, room := c.tailRoom(); len(room) >= minTail {
		n, err = fillBlock(src, room)
		c.extend(last, n)
		total = int64(n)
	}
	for err == nil {
		n, err = c.readBlock(src, size)
		total += int64(n)
		size = min(2*size, readFromMost)
	}
	if err == io.EOF {
		err = nil
	}
	return total, err
}

// readBlock appends a new block, and fills it until size bytes have been read or src fails.
func (c *Chain) readBlock(src io.Reader, size int) (int, error) {
	d := defaultPool.Get(size)
	defer d.Release() // in case src panics; after Freeze, d is empty
	n, err := fillBlock(src, d.Bytes())
	r := d.Freeze(n)
	c.Append(&r)
	return n, err
}

// fillBlock reads from src until p is full or src returns an error.
func fillBlock(src io.Reader, p []byte) (n int, err error) {
	for empty := 0; n < len(p) && err == nil; {
		var m int
		m, err = src.Read(p[n:])
		if m < 0 || m > len(p)-n {
			panic(errBadCount)
		}
		n += m
		if m > 0 {
			empty = 0
		} else if empty++; empty == maxEmptyReads && err == nil {
			err = io.ErrNoProgress
		}
	}
	return n, err
}

// WriteTo writes the bytes of c to w, and releases the bytes that w has accepted. After an error, c
// holds exactly the unwritten bytes. The Write method of w must not keep the bytes.
//
// The number of writes depends on w:
//
//   - A *net.TCPConn or *net.UnixConn sends up to 1024 pieces with each writev.
//   - A writer with a WriteByte method, like *bufio.Writer, gets one Write for each piece.
//   - For any other writer, WriteTo copies a piece shorter than 8 KiB and the next pieces into one
//     Write of up to 16 KiB.
func (c *Chain) WriteTo(w io.Writer) (int64, error) {
	c.released.check()
	switch w.(type) {
	case *net.TCPConn, *net.UnixConn:
		if c.Pieces() > 1 {
			return c.writeVector(w)
		}
	case io.ByteWriter:
		return c.writePieces(w, 0)
	}
	return c.writePieces(w, joinBelow)
}

// writePieces writes the pieces one by one. It joins a piece shorter than minLen with the next
// pieces.
func (c *Chain) writePieces(w io.Writer, minLen int) (total int64, err error) {
	var joined Draft
	defer joined.Release()
	for c.size > 0 && err == nil {
		p := c.pieces()[0].Bytes()
		if len(p) < min(minLen, c.size) {
			if joined.blk == nil {
				joined = defaultPool.Get(min(c.size, joinMost))
			}
			p = joined.Bytes()
			p = p[:c.CopyTo(p[:min(len(p), joinMost)])]
		}
		var n int
		n, err = w.Write(p)
		if n < 0 || n > len(p) {
			return total, fmt.Errorf("millrace: WriteTo: invalid count %d from Write of %d bytes",
				n, len(p))
		}
		c.Discard(n)
		total += int64(n)
		if err == nil && n < len(p) {
			err = io.ErrShortWrite
		}
	}
	return total, err
}

type vector struct {
	all  [][]byte    // all slices; its memory is reused
	rest net.Buffers // the unsent slices; Buffers.WriteTo removes the sent ones
}

var vectors = sync.Pool{New: func() any { return &vector{all: make([][]byte, 0, 64)} }}

func (c *Chain) writeVector(conn io.Writer) (total int64, err error) {
	v := vectors.Get().(*vector)
	for c.size > 0 && err == nil {
		pieces := c.pieces()
		for i := range pieces[:min(len(pieces), maxVector)] {
			v.all = append(v.all, pieces[i].Bytes())
		}
		v.rest = v.all
		var n int64
		n, err = v.rest.WriteTo(conn)
		clear(v.all)
		v.all, v.rest = v.all[:0], nil
		c.Discard(int(n))
		total += n
	}
	// Put is not deferred: after a panic, v may still have slices, and its next user would send
	// them.
	vectors.Put(v)
	return total, err
}
