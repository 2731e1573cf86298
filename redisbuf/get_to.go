package redisbuf

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/millrace-io/millrace"
)

const (
	// relayBlock is what passes through memory at a time where the kernel cannot move bytes from socket to socket.
	relayBlock = 64 << 10

	// spliceLeast is the shortest rest of a value for which it pays to have the kernel do that.
	spliceLeast = 64 << 10

	// spliceHead is how much of a range that the kernel is to move is received together with its header.
	spliceHead = 4 << 10

	// spliceStep is how much the kernel is asked to move at a time: the deadline is for each of them.
	spliceStep = 1 << 20
)

// GetTo writes the value of key to w, and returns how many bytes w took. Between two TCP or Unix connections the kernel
// moves them (splice), also if w is an http.ResponseWriter with a Content-Length. Otherwise they pass through one
// pooled block. The value is one that the key had, whatever happens to it meanwhile.
//
// The length is not known in advance. If you need it first, say for a Content-Length, use a [ReaderAt], which also notices if
// the length changes; it reads ranges, one round trip each.
//
// The error is redis.Nil if there is no such key. When w has taken bytes and there is an error, the rest of the value is
// lost: the call is not retried. An HTTP handler then panics with http.ErrAbortHandler, so that nobody takes the part for
// the whole. While w makes GetTo wait, the connection to the server waits as well, and what the server has not sent yet
// takes up the server's memory.
func (c commands) GetTo(ctx context.Context, key string, w io.Writer) (n int64, err error) {
	op := call{verb: getTo, key: key, writer: w}
	c.do(ctx, &op)
	c.learn(&op)
	return op.n, op.err
}

// GetRangeTo writes the bytes of the value of key from off on to w, n of them or as many as there are, and returns how many w
// took; if the key is not there, or its value is not that long, that is none. Apart from that it does what GetTo does: the
// kernel moves a long range, and the call is not retried once w has taken bytes.
//
// Of a long value that does not change, ranges of 256 KiB to 1 MiB are faster than all of it at once, and hold the server up for
// less long: it copies what it is asked for before it sends it.
func (c commands) GetRangeTo(ctx context.Context, key string, off, n int64, w io.Writer) (int64, error) {
	if off < 0 || n < 0 {
		return 0, errOffset
	}
	if n == 0 {
		return 0, nil
	}
	op := call{verb: getRangeTo, key: key, off: off, size: min(n, math.MaxInt64-off), writer: w}
	c.do(ctx, &op)
	return op.n, op.err
}

// readTo writes a value to op.writer.
func (c *conn) readTo(op *call) error {
	d := millrace.DefaultPool.Get(relayBlock)
	defer d.Release()
	buf := d.Bytes()
	first := buf
	if op.verb == getRangeTo && op.size >= 2*spliceLeast && c.canSplice(op.writer) {
		first = buf[:spliceHead]
	}
	size, got, err := c.ask(first)
	if err != nil {
		return err
	}
	if op.verb == getRangeTo && size > op.size {
		return badReply("%d bytes where %d were asked for", size, op.size)
	}
	for left := size; ; {
		if got == 0 && left >= spliceLeast && c.canSplice(op.writer) {
			n, err := c.spliceTo(op.writer.(io.ReaderFrom), left)
			op.n += n
			op.final = op.final || n > 0
			if left -= n; err != nil {
				c.broken = true // nobody knows how much was taken from the socket
				return err
			}
		} else if left > 0 {
			n := int(min(left, int64(len(buf))))
			if got < n { // what is there goes at once
				m, err := c.receiveSome(buf[got:n])
				if got += m; err != nil {
					return cut(err)
				}
			}
			left -= int64(got)
			if err := c.writeOut(op, buf[:got]); isWriterError(err) {
				return c.refuse(left, err)
			} else if err != nil {
				return err
			}
			got = 0
		}
		if left == 0 {
			return c.readEnd()
		}
	}
}

// writeOut writes p to op.writer.
func (c *conn) writeOut(op *call, p []byte) error {
	op.final = true
	n, err := op.writer.Write(p)
	op.n += int64(min(max(n, 0), len(p)))
	if err == nil && n != len(p) {
		err = io.ErrShortWrite
	}
	if err != nil {
		return &WriterError{Err: err}
	}
	return c.renew() // w may have taken its time
}

// A WriterError says that the writer of GetTo or GetRangeTo failed.
type WriterError struct{ Err error }

func (e *WriterError) Error() string { return fmt.Sprintf("redisbuf: writing the value: %v", e.Err) }

// Unwrap returns the writer's error.
func (e *WriterError) Unwrap() error { return e.Err }

func isWriterError(err error) bool {
	_, is := err.(*WriterError)
	return is
}

// canSplice reports whether w may have the kernel move bytes from the connection.
func (c *conn) canSplice(w io.Writer) bool {
	if c.vectored == nil || len(c.inbox.unread()) > 0 {
		return false
	}
	_, ok := w.(io.ReaderFrom)
	return ok
}

// spliceTo has w read n bytes from the connection.
func (c *conn) spliceTo(w io.ReaderFrom, n int64) (done int64, err error) {
	if err := c.lift(); err != nil {
		return 0, err
	}
	watch := c.watchServer(false)
	defer watch.end()
	for done < n {
		step := &io.LimitedReader{R: c.conn, N: min(n-done, spliceStep)}
		moved, err := w.ReadFrom(step)
		done += moved
		if err == nil && step.N == 0 {
			watch.stepped()
			continue
		}
		// It does not go on after an error: nobody knows what was on its way to w.
		silent := watch.end()
		over := c.over()
		switch {
		case over != nil && errors.Is(err, os.ErrDeadlineExceeded):
			return done, over
		case silent:
			return done, os.ErrDeadlineExceeded
		case c.gone():
			return done, errClosedByServer
		case err == nil:
			return done, &WriterError{Err: io.ErrShortWrite}
		default:
			return done, &WriterError{Err: err}
		}
	}
	watch.end()
	return done, c.renew()
}
