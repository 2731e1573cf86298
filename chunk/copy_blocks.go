package chunk

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/millrace-io/millrace"
)

// copyBlock is what is read and written at a time where the kernel cannot move bytes by itself: large enough for the
// system calls to cost less than the bytes, small enough to stay in the processor's caches in between. Twice as much costs
// a twentieth where both ends are memory, and gains nothing where one is a socket.
const copyBlock = 32 << 10

// aheadBlock is what is read ahead at a time, where handing a block over costs more than a system call.
const aheadBlock = 64 << 10

var (
	errBadCount = errors.New("chunk: the writer returned an invalid count")

	// errPays says that reading ahead is worth what it costs.
	errPays = errors.New("chunk: both ends take long")
)

// copyBlocks copies through one pooled block until read fails, and returns read's error, or dst's, or ctx's. It counts
// what dst took. If p is not nil, it returns errPays as soon as p says so.
func copyBlocks(ctx context.Context, t *tally, dst io.Writer, read func([]byte) (int, error), size int64, p *pace) error {
	d := millrace.DefaultPool.Get(int(size))
	defer d.Release()
	var begun, half time.Time
	for buf := d.Bytes(); ; {
		if err := ctx.Err(); err != nil {
			return err
		}
		if p != nil {
			begun = time.Now()
		}
		n, err := read(buf)
		if p != nil {
			half = time.Now()
		}
		if n > 0 {
			taken, err := writeAll(dst, buf[:n])
			t.add(&t.Copied, int64(taken))
			if err != nil {
				return err
			}
		}
		if err != nil {
			return err
		}
		if p != nil && p.observe(half.Sub(begun), time.Since(half)) {
			return errPays
		}
	}
}

// writeAll writes p and returns how much of it w took; if that is not all, also an error.
func writeAll(w io.Writer, p []byte) (int, error) {
	n, err := w.Write(p)
	if n < 0 || n > len(p) {
		return 0, errBadCount
	}
	if n < len(p) && err == nil {
		err = io.ErrShortWrite
	}
	return n, err
}

// copyAhead sends what is left of f through pooled blocks, and reads the next ones meanwhile once both the file and the
// target are seen to take long. Where there is a warmth, it has the kernel do that.
func (f *fileRange) copyAhead(dst io.Writer) error {
	if f.warmth != nil {
		return f.copyTo(dst)
	}
	start, before := f.off, f.tally.Copied
	err := copyBlocks(f.ctx, f.tally, dst, f.read, min(copyBlock, max(f.end-f.off, 1)), new(pace))
	if err == errPays {
		f.off = start + f.tally.Copied - before
		err = f.readAhead(dst)
	}
	f.off = start + f.tally.Copied - before // not what was read and dst did not take
	if err == io.EOF {
		return nil
	}
	return err
}

// readAhead is copyAhead with a goroutine that reads. The goroutine reads a copy of f, and may still be at that, for as
// long as a disk takes, after readAhead has returned.
func (f *fileRange) readAhead(dst io.Writer) error {
	ahead := fileRange{file: f.file, off: f.off, end: f.end, exact: f.exact} // and nothing that somebody else has then
	r := NewReader(readerFunc(ahead.read), Size(aheadBlock))
	defer r.Close()
	for {
		ref, err := r.Next(f.ctx)
		if err != nil {
			return err
		}
		n, err := writeAll(dst, ref.Bytes())
		ref.Release()
		f.tally.add(&f.tally.Copied, int64(n))
		if err != nil {
			return err
		}
	}
}

// A readerFunc is an io.Reader that is a function.
type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
