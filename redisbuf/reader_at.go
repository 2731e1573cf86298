package redisbuf

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/millrace-io/millrace"
	"github.com/redis/go-redis/v9"
)

// readAhead is how much of a value a ReaderAt's Read asks for at a time: enough for the round trip not to matter.
const readAhead = 1 << 20

// A ReaderAt reads ranges of a value. It is an io.ReaderAt, for any number of goroutines, and an io.ReadSeeker, for
// one: fit for http.ServeContent and io.NewSectionReader. Each range is of one version of the value. If that version
// has another length than when the ReaderAt was made, a *ValueChangedError says so, even if the key is gone: then the
// length is 0. (A value that was replaced by one of the same length is not noticed. Whoever needs all of one version
// reads it with GetTo or GetChain, or gives each version a key of its own.)
//
// A range and the length are asked for in a transaction. A server whose memory is full refuses that (OOM), and so
// does one that does not let the user have MULTI or EXEC (NOPERM). From then on the length is asked for before the
// range and after it. A value that was then replaced twice in between, the second time by one of the first length, is
// not noticed either.
//
// Invariants:
//
//	0 ≤ off
//	ahead is what comes at off
type ReaderAt struct {
	c     commands
	ctx   context.Context
	key   string
	size  int64
	off   int64
	ahead millrace.Chain
	plain atomic.Bool // the server has refused a transaction
}

// A ValueChangedError says that a value has become longer or shorter between two ranges.
type ValueChangedError struct {
	Was, Is int64 // bytes; Is is 0 if the value was deleted
}

func (e *ValueChangedError) Error() string {
	return fmt.Sprintf("redisbuf: the value has changed from %d to %d bytes", e.Was, e.Is)
}

// ReaderAt returns a ReaderAt of the value of key, or redis.Nil if there is none. ctx is for all that is read with it.
// Close gives back what Read has read ahead.
func (c commands) ReaderAt(ctx context.Context, key string) (*ReaderAt, error) {
	op := call{verb: strlen, key: key}
	if c.do(ctx, &op); op.err != nil {
		return nil, op.err
	}
	if op.n == 0 { // a value of no bytes, or none
		var err error
		if op.n, err = c.sizeAtOnce(ctx, key); err != nil {
			return nil, err
		}
	}
	return &ReaderAt{c: c, ctx: ctx, key: key, size: op.n}, nil
}

// sizeAtOnce returns the length of a value that probably has none, or redis.Nil if it is not there. Both are of one moment: if
// STRLEN said 0 and then EXISTS said 1, the key may have been set in between, and never have been empty.
func (c commands) sizeAtOnce(ctx context.Context, key string) (int64, error) {
	op := call{verb: getToBuffer, key: key}
	c.do(ctx, &op)
	if small, ok := errors.AsType[*BufferTooSmallError](op.err); ok {
		return small.Need, nil
	}
	return op.n, op.err
}

// Size returns the length of the value when the ReaderAt was made, in bytes.
func (r *ReaderAt) Size() int64 { return r.size }

// ReadAt implements io.ReaderAt. It borrows p.
func (r *ReaderAt) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, errOffset
	}
	n := int(max(min(int64(len(p)), r.size-off), 0))
	if n > 0 {
		op := call{verb: getVersion, key: r.key, off: off, size: int64(n), buf: p[:n], length: r.size}
		if r.get(&op); op.err != nil {
			return 0, op.err
		}
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// get reads a range.
func (r *ReaderAt) get(op *call) {
	op.plain = r.plain.Load()
	r.c.do(r.ctx, op)
	if !op.plain && (redis.IsOOMError(op.err) || redis.IsPermissionError(op.err) || redis.HasErrorPrefix(op.err, "EXECABORT")) {
		r.plain.Store(true)
		op.plain = true
		r.c.do(r.ctx, op)
	}
}

// Read implements io.Reader. It borrows p.
func (r *ReaderAt) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if r.ahead.Len() == 0 {
		left := r.size - r.off
		if left <= 0 {
			return 0, io.EOF
		}
		if int64(len(p)) >= min(left, readAhead) {
			n, err := r.ReadAt(p[:min(int64(len(p)), left)], r.off)
			r.off += int64(n)
			return n, err
		}
		op := call{verb: getVersionChain, key: r.key, off: r.off, size: min(left, readAhead), chain: &r.ahead, length: r.size}
		if r.get(&op); op.err != nil {
			return 0, op.err
		}
	}
	n := r.ahead.CopyTo(p)
	r.ahead.Discard(n)
	r.off += int64(n)
	return n, nil
}

// Seek implements io.Seeker.
func (r *ReaderAt) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekStart:
	case io.SeekCurrent:
		offset += r.off
	case io.SeekEnd:
		offset += r.size
	default:
		return 0, errors.New("redisbuf: Seek from an unknown place")
	}
	if offset < 0 {
		return 0, errOffset
	}
	if ahead := offset - r.off; ahead >= 0 && ahead <= int64(r.ahead.Len()) {
		r.ahead.Discard(int(ahead))
	} else {
		r.ahead.Release()
	}
	r.off = offset
	return offset, nil
}

// Close gives back what was read ahead. It returns nil.
func (r *ReaderAt) Close() error {
	r.ahead.Release()
	return nil
}
