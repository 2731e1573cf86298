package redisbuf

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/millrace-io/millrace"
)

// readAheadLen is the number of bytes that ReaderAt.Read requests at a time. It is so large that
// the round-trip time does not matter.
const readAheadLen = 1 << 20

// A ReaderAt reads ranges of a value, for example for http.ServeContent. Any number of goroutines
// may use it as an io.ReaderAt, but only one at a time as an io.ReadSeeker.
//
// All bytes of a range are from one version of the value. Different ranges may be from different
// versions.
//
// If the length of the value changes, or the key is deleted, the error is a *ValueChangedError. The
// ReaderAt does not notice a new value of the same length. If all ranges must be from one version,
// give each version its own key, or use GetTo or GetChain.
type ReaderAt struct {
	c     *Client
	ctx   context.Context
	key   string
	size  int64
	off   int64                 // offset of Read and Seek, at least 0
	block millrace.Draft        // memory of ahead; empty if nothing is read ahead
	ahead []byte                // the bytes read ahead, starting at off
	err   atomic.Pointer[error] // first error, or nil
}

// A ValueChangedError reports that the length of a value has changed since its ReaderAt was made.
type ValueChangedError struct {
	Was, Is int64 // lengths; Is is 0 if the key was deleted
}

func (e *ValueChangedError) Error() string {
	return fmt.Sprintf("redisbuf: the value has changed from %d to %d bytes", e.Was, e.Is)
}

// ReaderAt returns a ReaderAt for the value of key. The error is redis.Nil if the key does not
// exist. The ReaderAt uses ctx for all calls. The caller must Close it to release the bytes read
// ahead.
func (c *Client) ReaderAt(ctx context.Context, key string) (*ReaderAt, error) {
	cmd := &strlenCmd{commandInfo{key: key}}
	err := c.do(ctx, cmd)
	size := cmd.n
	if err == nil && size == 0 {
		// A GET distinguishes an empty value from a missing one.
		get := &getCmd{getHeader: wholeOf(key)}
		err = c.do(ctx, get)
		if small, ok := errors.AsType[*BufferTooSmallError](err); ok {
			size, err = small.Need, nil
		}
	}
	if err != nil {
		return nil, err
	}
	return &ReaderAt{c: c, ctx: ctx, key: key, size: size}, nil
}

// Size returns the length that the value had when the ReaderAt was made.
func (r *ReaderAt) Size() int64 { return r.size }

// Err returns the first error of Read and ReadAt, other than io.EOF, or nil. Use it after a
// function that does not return the errors of its reader, such as http.ServeContent. Err also works
// after Close.
func (r *ReaderAt) Err() error {
	if err := r.err.Load(); err != nil {
		return *err
	}
	return nil
}

// fail returns err, and stores it for Err if it is the first error.
func (r *ReaderAt) fail(err error) error {
	r.err.CompareAndSwap(nil, &err)
	return err
}

// ReadAt reads the value from offset off into p, which it borrows. If the value ends before p is
// full, the error is io.EOF.
func (r *ReaderAt) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, r.fail(errOffset)
	}
	n := max(min(int64(len(p)), r.size-off), 0)
	if n > 0 {
		if err := r.c.do(r.ctx, r.rangeCmd(off, p[:n])); err != nil {
			return 0, r.fail(err)
		}
	}
	if int(n) < len(p) {
		return int(n), io.EOF
	}
	return int(n), nil
}

// Read reads the next bytes of the value into p, which it borrows. At the end of the value, the
// error is io.EOF.
func (r *ReaderAt) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if len(r.ahead) == 0 {
		left := r.size - r.off
		if left <= 0 {
			return 0, io.EOF
		}
		if int64(len(p)) >= min(left, readAheadLen) {
			n, err := r.ReadAt(p[:min(int64(len(p)), left)], r.off)
			r.off += int64(n)
			return n, err
		}
		if err := r.readAhead(int(min(left, readAheadLen))); err != nil {
			return 0, err
		}
	}
	n := copy(p, r.ahead)
	r.skipAhead(n)
	r.off += int64(n)
	return n, nil
}

func (r *ReaderAt) readAhead(n int) error {
	block := millrace.DefaultPool().Get(n)
	defer block.Release() // after an error; otherwise r owns the block
	p := block.Bytes()[:n]
	if _, err := r.ReadAt(p, r.off); err != nil {
		return err
	}
	r.ahead, r.block, block = p, block, millrace.Draft{}
	return nil
}

func (r *ReaderAt) skipAhead(n int) {
	if r.ahead = r.ahead[n:]; len(r.ahead) == 0 {
		r.ahead = nil
		r.block.Release()
	}
}

// Seek sets the offset for the next Read, as described in [io.Seeker].
func (r *ReaderAt) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekStart:
	case io.SeekCurrent:
		offset += r.off
	case io.SeekEnd:
		offset += r.size
	default:
		return 0, fmt.Errorf("redisbuf: Seek with whence %d", whence)
	}
	if offset < 0 {
		return 0, errOffset
	}
	ahead := offset - r.off
	if ahead < 0 || ahead > int64(len(r.ahead)) {
		ahead = int64(len(r.ahead))
	}
	r.skipAhead(int(ahead))
	r.off = offset
	return offset, nil
}

// Close releases the bytes read ahead. It returns nil.
func (r *ReaderAt) Close() error {
	r.skipAhead(len(r.ahead))
	return nil
}

// A strlenCmd requests the length of a value. The length of a missing value is 0.
type strlenCmd struct{ commandInfo }

func (s *strlenCmd) compose(c *conn) error {
	c.queueCommand(s.op(), s.key)
	return nil
}

func (s *strlenCmd) op() string { return "STRLEN" }

func (s *strlenCmd) bytes() int64 { return 0 }

func (s *strlenCmd) read(c *conn) (err error) {
	s.n, err = c.readLen()
	return err
}

func (s *strlenCmd) weight(int64) int64 { return 0 }

// A rangeCmd reads a range of a value into buf, and detects a change of the value's length. It
// requests the length, the range, and the length again.
type rangeCmd struct {
	getCmd
	length int64
}

func (r *ReaderAt) rangeCmd(off int64, buf []byte) *rangeCmd {
	return &rangeCmd{getCmd: getCmd{getHeader: rangeOf(r.key, off, int64(len(buf))), buf: buf},
		length: r.size}
}

func (r *rangeCmd) compose(c *conn) error {
	c.queueCommand("STRLEN", r.key)
	err := r.getCmd.compose(c)
	c.queueCommand("STRLEN", r.key)
	return err
}

// read reads three replies: the length of the value, the range, and the length again. It returns
// the first error. If a later error makes the connection unusable, read returns the later error
// instead.
func (r *rangeCmd) read(c *conn) error {
	var first error
	for _, read := range []func(*conn) error{r.readLength, r.getCmd.read, r.readLength} {
		err := read(c)
		if err != nil && !c.usableAfter(err) {
			first = err
			break
		}
		if first == nil {
			first = err
		}
	}
	if first == nil && r.n != int64(len(r.buf)) {
		// The length was right before and after the range, but the value was shorter in between.
		first = &ValueChangedError{Was: r.length, Is: r.off + r.n}
	}
	return first
}

// readLength returns a *ValueChangedError if the length of the value is not r.length.
func (r *rangeCmd) readLength(c *conn) error {
	is, err := c.readLen()
	if err == nil && is != r.length {
		err = &ValueChangedError{Was: r.length, Is: is}
	}
	return err
}
