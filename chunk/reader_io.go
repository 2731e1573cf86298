package chunk

import (
	"context"
	"fmt"
	"io"
	"iter"

	"github.com/millrace-io/millrace"
)

// Chunks lends the chunks one after the other: each is valid until the loop's body ends. The sequence ends with the
// source, or, after any other error, with a nil chunk and that error. Errors are those of [Reader.Next]. When ctx ends,
// the goroutine that reads ahead ends at once, even while the loop's body runs. A loop that is left early can be
// followed by another one, or by Next, which go on behind the chunk that was lent last.
func (r *Reader) Chunks(ctx context.Context) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		stop := context.AfterFunc(ctx, func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.interrupt()
		})
		defer stop()
		for {
			ref, err := r.Next(ctx)
			if err == io.EOF {
				return
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if !lend(ref, yield) {
				return
			}
		}
	}
}

// lend takes ownership of ref.
func lend(ref millrace.Ref, yield func([]byte, error) bool) bool {
	defer ref.Release()
	return yield(ref.Bytes(), nil)
}

// Read copies the next bytes into p, at most to the end of a chunk. It borrows p until it returns, and gives nothing to
// release. It implements io.Reader; errors are those of [Reader.Next]. After a Read that took a part of a chunk, Next gives
// the rest of it.
func (r *Reader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.load(context.Background()); err != nil {
		return 0, err
	}
	n := copy(p, r.cur.ref.Bytes()[r.used:])
	r.advance(n)
	return n, nil
}

// WriteTo writes all chunks to w, one Write each, until the source ends, and returns how many bytes that was. It
// borrows w, and lends it each chunk until that Write returns: after that the memory is used again. It implements
// io.WriterTo. Where w takes less than it is given, the rest stays, and is what is read next.
func (r *Reader) WriteTo(w io.Writer) (int64, error) {
	var total int64
	for {
		n, err := r.writeChunk(w)
		total += int64(n)
		if err == io.EOF {
			return total, nil
		}
		if err != nil {
			return total, err
		}
	}
}

// writeChunk writes what is left of the chunk that was begun, or the next one. io.EOF is the source's alone.
func (r *Reader) writeChunk(w io.Writer) (n int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.load(context.Background()); err != nil {
		return 0, err
	}
	it, used := r.cur, r.used
	r.cur, r.used = item{}, 0 // Close must not release what is being written
	defer func() {
		if r.closed {
			it.ref.Release()
			return
		}
		r.cur, r.used = it, used
		r.advance(n)
	}()
	p := it.ref.Bytes()[used:]
	n, err = r.writeUnlocked(w, p)
	if n < 0 || n > len(p) {
		n, err = 0, fmt.Errorf("chunk: WriteTo: invalid count %d from Write of %d bytes", n, len(p))
	}
	if err == io.EOF {
		err = fmt.Errorf("chunk: WriteTo: %w", err)
	}
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	return n, err
}

func (r *Reader) writeUnlocked(w io.Writer, p []byte) (int, error) {
	r.mu.Unlock()
	defer r.mu.Lock()
	return w.Write(p)
}

// advance is done with n more bytes of cur. r.mu is held.
func (r *Reader) advance(n int) {
	if r.used += n; r.used == r.cur.ref.Len() {
		r.cur.ref.Release()
		r.cur, r.used = item{}, 0
	}
}
