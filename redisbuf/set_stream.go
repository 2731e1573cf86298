package redisbuf

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"github.com/millrace-io/millrace"
)

// SetFile sets key to what is in f, from its beginning to its end. On a plain connection the kernel moves the bytes
// (sendfile) from 64 KiB on; a shorter file goes with the command. It borrows f, and neither uses nor moves its position.
// The errors are those of SetFromBuffer; if f has become shorter meanwhile, it is an io.ErrUnexpectedEOF, and the key stays
// as it was. It refuses anything but a regular file, and files that report size 0 but have content, as in /proc.
func (c commands) SetFile(ctx context.Context, key string, f *os.File, opts ...SetOption) error {
	set, err := combine(opts)
	if err != nil {
		return err
	}
	size, err := fileSize(f)
	if err != nil {
		return err
	}
	op := call{verb: setFile, key: key, file: f, size: size, set: set}
	c.do(ctx, &op)
	return op.err
}

func fileSize(f *os.File) (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	if !info.Mode().IsRegular() {
		return 0, fmt.Errorf("redisbuf: SetFile of %s, which is no regular file", f.Name())
	}
	if info.Size() == 0 {
		var p [1]byte
		switch n, err := f.ReadAt(p[:], 0); {
		case n > 0:
			return 0, fmt.Errorf("redisbuf: SetFile of %s, which says that it is empty, and is not", f.Name())
		case err != nil && err != io.EOF:
			return 0, &ReaderError{Err: err}
		}
	}
	return info.Size(), nil
}

// SetFrom sets key to the next n bytes of r. From a TCP or Unix connection the kernel moves them to the server's (splice);
// otherwise they pass through one pooled block. It borrows r, and does not read more.
//
// The errors are those of SetFromBuffer; if r ends early, the error is an io.ErrUnexpectedEOF, and the key stays as it
// was. If r gives neither bytes nor an error a hundred times in a row, the error is an io.ErrNoProgress. A Read of r
// that waits is not ended by ctx. Meanwhile the call keeps its connection and its bytes in flight: an r that reads values with
// the same Client may wait for just these, so give it a Client of its own.
//
// Once r was read from, the call is not retried. While a cluster moves slots, the call then returns an error that says
// MOVED or ASK (redis.IsMovedError, redis.IsAskError): if you can read the value once more, call again. After a MOVED,
// that call finds the new server as soon as go-redis has asked the cluster; an ASK lasts as long as the slot moves.
// SetFromBuffer, SetChain and SetFile are sent on at once.
func (c commands) SetFrom(ctx context.Context, key string, r io.Reader, n int64, opts ...SetOption) error {
	set, err := combine(opts)
	if err != nil {
		return err
	}
	if n < 0 {
		return errOffset
	}
	op := call{verb: setFrom, key: key, reader: r, size: n, set: set}
	c.do(ctx, &op)
	return op.err
}

// A ReaderError says that what a value was to be read from failed. The key is as it was.
type ReaderError struct{ Err error }

func (e *ReaderError) Error() string { return fmt.Sprintf("redisbuf: reading the value: %v", e.Err) }

// Unwrap returns the reader's error.
func (e *ReaderError) Unwrap() error { return e.Err }

// sendfileLeast is the shortest file that the kernel sends by itself. A shorter one is read into the command, which saves
// system calls, and the server two wake-ups.
const sendfileLeast = 64 << 10

// inRequest reports whether the call's value is put into the command.
func (op *call) inRequest() bool { return op.verb == setFile && op.size < sendfileLeast }

// sendFile sends a file as the value.
func (c *conn) sendFile(op *call) error {
	if op.inRequest() {
		return c.addFile(op)
	}
	if err := c.flush(); err != nil {
		return err
	}
	off := int64(0)
	if c.vectored != nil {
		var err error
		if off, err = c.vectored.sendFile(op.file, op.size); err != nil && err != errUnhandled {
			return err
		}
	}
	if off == op.size {
		return nil
	}
	return c.copyIn(io.NewSectionReader(op.file, off, op.size-off), op.size-off)
}

// addFile adds a file to the command. The caller has made room for it.
func (c *conn) addFile(op *call) error {
	p := c.request.buf[:len(c.request.buf)+int(op.size)]
	n, err := op.file.ReadAt(p[len(c.request.buf):], 0)
	switch {
	case n == int(op.size):
		c.request.buf = p
		return nil
	case err == io.EOF:
		err = io.ErrUnexpectedEOF
	}
	return &ReaderError{Err: err}
}

// sendFrom sends what a reader gives as the value.
func (c *conn) sendFrom(op *call) error {
	if op.size == 0 {
		return nil
	}
	op.final = true
	if c.vectored == nil || op.size < spliceLeast {
		return c.copyIn(op.reader, op.size)
	}
	switch op.reader.(type) {
	case *net.TCPConn, *net.UnixConn:
		return c.spliceIn(op.reader, op.size)
	}
	return c.copyIn(op.reader, op.size)
}

// copyIn sends n bytes of r through a block.
func (c *conn) copyIn(r io.Reader, n int64) error {
	d := millrace.DefaultPool.Get(int(min(n, relayBlock)))
	defer d.Release() // which is sent by then: nothing that was pushed is of it
	for n > 0 {
		p := d.Bytes()
		p = p[:min(n, int64(len(p)))]
		m, err := c.readSome(r, p)
		if m > 0 {
			if err := c.renew(); err != nil { // r may have taken its time
				return err
			}
			if err := c.value(p[:m], false); err != nil {
				return err
			}
			if err := c.flush(); err != nil {
				return err
			}
			if n -= int64(m); n == 0 {
				return nil
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// maxEmptyReads is how often in a row a reader may give nothing, as in bufio.
const maxEmptyReads = 100

// readSome reads at least one byte from r, or returns a ReaderError or the context's error.
func (c *conn) readSome(r io.Reader, p []byte) (int, error) {
	for range maxEmptyReads {
		n, err := r.Read(p)
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			err = &ReaderError{Err: err}
		} else if n == 0 {
			err = c.over()
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
	return 0, &ReaderError{Err: io.ErrNoProgress}
}

// spliceIn has the kernel move n bytes from r.
func (c *conn) spliceIn(r io.Reader, n int64) error {
	if err := c.flush(); err != nil {
		return err
	}
	w, ok := c.conn.(io.ReaderFrom)
	if !ok {
		return c.copyIn(r, n)
	}
	if err := c.lift(); err != nil {
		return err
	}
	watch := c.watchServer(true)
	defer watch.end()
	for n > 0 {
		step := &io.LimitedReader{R: r, N: min(n, spliceStep)}
		moved, err := w.ReadFrom(step)
		n -= moved
		if err == nil && step.N == 0 {
			watch.stepped()
			continue
		}
		// It does not go on after an error: nobody knows what was on its way to the server.
		stuck := watch.end()
		over := c.over()
		switch {
		case err == nil:
			return &ReaderError{Err: io.ErrUnexpectedEOF}
		case over != nil && errors.Is(err, os.ErrDeadlineExceeded):
			return over
		case stuck:
			return os.ErrDeadlineExceeded
		case c.gone():
			return err
		default:
			return &ReaderError{Err: err}
		}
	}
	watch.end()
	return c.renew()
}
