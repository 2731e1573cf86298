package blob

import (
	"context"
	"io"
	"os"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/chunk"
)

// spoolMemory is how much of a body is received into memory before a file is made for it.
const spoolMemory = 1 << 20

// A spool holds a body until it is whole.
//
// Invariant: the body is in chain, of which there are at most spoolMemory+1 bytes, or else in file.
type spool struct {
	chain millrace.Chain
	file  *os.File // has no name, so that nothing stays of it
	size  int64
}

// fill receives src to its end. The call that ends the life of what is received is release, even after an error.
func (b *spool) fill(ctx context.Context, src io.Reader) error {
	n, err := b.chain.ReadFrom(&io.LimitedReader{R: src, N: spoolMemory + 1})
	b.size = n
	if err != nil || n <= spoolMemory {
		return err
	}
	if b.file, err = os.CreateTemp("", "millrace-*"); err != nil {
		return roomError(err)
	}
	if err := os.Remove(b.file.Name()); err != nil {
		return err
	}
	if _, err := b.chain.WriteTo(b.file); err != nil {
		return roomError(err)
	}
	moved, err := chunk.Copy(ctx, b.file, src)
	b.size += moved.Bytes
	return roomError(err)
}

// release gives back what the spool holds.
func (b *spool) release() {
	b.chain.Release()
	if b.file != nil {
		_ = b.file.Close()
	}
}
