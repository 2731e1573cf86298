package files

import (
	"context"
	"encoding/binary"
	"io"
	"os"

	"github.com/millrace-io/millrace/chunk"
)

// A view is a way to get at the blocks of a file, for one goroutine.
type view interface {
	// look looks at the block at off, which is a multiple of its length. A view
	// that only goes forward starts over at 0.
	look(off int64) (uint64, error)
	close() error
}

// glance is what is done with a block: one word of each cache line is added,
// so that the bytes have to be there and nothing is compared but getting them.
func glance(b []byte) (sum uint64) {
	for ; len(b) >= 64; b = b[64:] {
		sum += binary.LittleEndian.Uint64(b)
	}
	return sum
}

// readAt reads each block into the same memory.
type readAt struct {
	f   *os.File
	buf []byte
}

func (v readAt) look(off int64) (uint64, error) {
	_, err := v.f.ReadAt(v.buf, off)
	return glance(v.buf), err
}

func (v readAt) close() error { return nil }

// chunks takes block after block from a chunk.Reader.
type chunks struct {
	f     *os.File
	size  int64
	block int
	r     *chunk.Reader
}

func (v *chunks) look(off int64) (uint64, error) {
	if off == 0 {
		if err := v.close(); err != nil {
			return 0, err
		}
		v.r = chunk.NewReader(io.NewSectionReader(v.f, 0, v.size), chunk.Size(v.block))
	}
	ref, err := v.r.Next(context.Background())
	if err != nil {
		return 0, err
	}
	sum := glance(ref.Bytes())
	ref.Release()
	return sum, nil
}

func (v *chunks) close() error {
	if v.r == nil {
		return nil
	}
	return v.r.Close()
}

// mapped has the file in memory, as a page fault for each page brings it there.
type mapped struct {
	m     []byte
	block int
}

func (v mapped) look(off int64) (uint64, error) { return glance(v.m[off : off+int64(v.block)]), nil }

func (v mapped) close() error { return unmap(v.m) }

func openMapped(f *os.File, size int64, block int) (view, error) {
	m, err := mapFile(f, size)
	return mapped{m, block}, err
}

func openMapRandom(f *os.File, size int64, block int) (view, error) {
	m, err := mapRandom(f, size)
	return mapped{m, block}, err
}
