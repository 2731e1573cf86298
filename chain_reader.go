package millrace

import (
	"errors"
	"fmt"
	"io"
)

// A ChainReader reads a Chain without consuming it. It borrows the Chain, which must not change or
// be released while the ChainReader is used. Several goroutines may call ReadAt at once.
type ChainReader struct {
	// Invariants: 0 ≤ at, and 0 ≤ start ≤ at unless piece == unknown.

	c  *Chain
	at int64 // offset of the next byte to read
	// piece is the index of the piece with the next byte or of an earlier piece. It may be unknown.
	piece int
	start int64 // offset in c at which that piece begins
}

// unknown is the piece index after Seek. The next Read then searches the whole Chain.
const unknown = -1

// Reader returns a ChainReader of c, positioned at the first byte. The ChainReader borrows c.
func (c *Chain) Reader() *ChainReader { return &ChainReader{c: c} }

// Len returns the number of unread bytes.
func (v *ChainReader) Len() int {
	v.c.released.check()
	return max(v.c.size-int(v.at), 0)
}

// Read copies the next bytes into p. It returns io.EOF at the end.
func (v *ChainReader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if v.Len() == 0 {
		return 0, io.EOF
	}
	pieces := v.c.pieces()
	if v.piece == unknown || v.piece >= len(pieces) { // such as when Bytes has joined pieces
		i, off := v.c.find(int(v.at))
		v.piece, v.start = i, v.at-int64(off)
	}
	for v.at-v.start >= int64(pieces[v.piece].n) {
		v.start += int64(pieces[v.piece].n)
		v.piece++
	}
	n := v.c.copyFrom(p, v.piece, int(v.at-v.start))
	v.at += int64(n)
	return n, nil
}

// WriteTo writes the unread bytes to w, as [Chain.WriteTo] does. After an error, the next Read
// begins with the first unwritten byte.
func (v *ChainReader) WriteTo(w io.Writer) (int64, error) {
	if v.Len() == 0 {
		return 0, nil
	}
	var rest Chain
	defer rest.Release()
	v.c.SliceTo(&rest, int(v.at), v.c.size)
	n, err := rest.WriteTo(w)
	v.at += n
	v.piece = unknown
	return n, err
}

// ReadAt copies bytes of the Chain into p, beginning at the offset off. If the Chain ends before p
// is full, it returns io.EOF.
func (v *ChainReader) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, errors.New("millrace: ReadAt at a negative offset")
	}
	v.c.released.check()
	if off >= int64(v.c.size) {
		return 0, io.EOF
	}
	n := v.c.copyAt(p, int(off))
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// Seek sets where the next Read begins, as io.Seeker describes. A position beyond the end is
// allowed: Read returns io.EOF there.
func (v *ChainReader) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekStart:
	case io.SeekCurrent:
		offset += v.at
	case io.SeekEnd:
		offset += int64(v.c.size)
	default:
		return 0, fmt.Errorf("millrace: Seek with whence %d", whence)
	}
	if offset < 0 {
		return 0, errors.New("millrace: Seek to before the start")
	}
	v.at, v.piece = offset, unknown
	return offset, nil
}
