package redisbuf

import (
	"context"
	"fmt"
	"io"
	"math"

	"github.com/millrace-io/millrace"
)

const (
	// relayBlock is the size of the block that values pass through where the kernel cannot move them.
	relayBlock = 64 << 10

	// minSplice is the shortest rest of a value for which a splice pays.
	minSplice = 64 << 10
)

// GetTo writes the value of key to w, and returns how many bytes w took. Between two TCP connections, or from a Unix socket
// to a TCP connection, the kernel moves the bytes (splice), also if w is an http.ResponseWriter with a Content-Length.
// Otherwise they pass through one pooled block. The value is one that the key had, even if it is replaced meanwhile.
//
// The length is not known in advance. If you need it first, as for a Content-Length, use a [ReaderAt], which reads ranges.
//
// The error is redis.Nil if there is no such key. The call is not retried once w was written to. If there is an error after
// that, w has a part of the value: an HTTP handler then panics with http.ErrAbortHandler, so that its client sees that the
// response is incomplete. While w blocks, the connection to the server waits, and the server keeps the rest in its memory.
func (c *Client) GetTo(ctx context.Context, key string, w io.Writer) (n int64, err error) {
	cmd := &getToCmd{commandInfo: commandInfo{key: key}, w: w}
	err = c.do(ctx, cmd)
	c.learn(cmd.n, err)
	return cmd.n, err
}

// GetRangeTo writes n bytes of the value of key to w, from offset off on, or fewer if the value ends before. It returns how
// many bytes w took. A key that does not exist has no bytes. In all else it does what GetTo does.
//
// Of a long value that does not change, ranges of 256 KiB to 1 MiB are faster than the whole value, and hold up the server's
// other clients for less long: a server copies what it is asked for before it sends it.
func (c *Client) GetRangeTo(ctx context.Context, key string, off, n int64, w io.Writer) (int64, error) {
	if off < 0 || n < 0 {
		return 0, errOffset
	}
	if n == 0 {
		return 0, nil
	}
	cmd := newGetRangeTo(key, off, n, w)
	err := c.do(ctx, cmd)
	return cmd.n, err
}

// A getToCmd writes a value to w.
type getToCmd struct {
	commandInfo
	w io.Writer
}

func (g *getToCmd) compose(c *conn) error {
	c.composeGet(g.key)
	return nil
}

func (g *getToCmd) read(c *conn) error {
	size, err := c.readValueHeader()
	if err != nil {
		return err
	}
	t := transfer{conn: c, to: g.w, info: &g.commandInfo}
	return t.run(size)
}

func (g *getToCmd) weight(unknown int64) int64 { return unknown }

// A getRangeToCmd writes size bytes of a value to w, which are not 0.
type getRangeToCmd struct {
	commandInfo
	off, size int64
	w         io.Writer
}

func newGetRangeTo(key string, off, n int64, w io.Writer) *getRangeToCmd {
	return &getRangeToCmd{commandInfo: commandInfo{key: key}, off: off, size: min(n, math.MaxInt64-off), w: w}
}

func (g *getRangeToCmd) compose(c *conn) error {
	c.composeGetRange(g.key, g.off, g.size)
	return nil
}

func (g *getRangeToCmd) read(c *conn) error {
	size, err := c.readValueHeader()
	if err != nil {
		return err
	}
	if size > g.size {
		return badReply("%d bytes where %d were asked for", size, g.size)
	}
	t := transfer{conn: c, to: g.w, info: &g.commandInfo}
	return t.run(size)
}

func (g *getRangeToCmd) weight(int64) int64 { return g.size }

// A transfer moves a value from a connection to a writer, and counts the bytes in info.n.
type transfer struct {
	conn *conn
	to   io.Writer
	info *commandInfo
}

// run moves a value of size bytes, and reads the line end behind it.
func (t *transfer) run(size int64) error {
	t.info.n = 0
	block := millrace.DefaultPool().Get(relayBlock)
	defer block.Release()
	for left := size; left > 0; {
		var n int64
		var err error
		if w, ok := t.to.(io.ReaderFrom); ok && left >= minSplice && t.conn.canSplice() {
			n, err = t.splice(w, left)
		} else {
			n, err = t.copy(block.Bytes(), left)
		}
		if left -= n; err != nil {
			return err
		}
	}
	return t.conn.readEnd()
}

// copy moves what has arrived of a value's last left bytes through buf, and returns how many bytes it took from the
// connection.
func (t *transfer) copy(buf []byte, left int64) (int64, error) {
	got, err := t.conn.in.Read(buf[:min(left, int64(len(buf)))])
	if err != nil {
		return int64(got), err
	}
	t.info.used = true
	n, err := t.to.Write(buf[:got])
	t.info.n += int64(min(max(n, 0), got))
	if err == nil && n != got {
		err = io.ErrShortWrite
	}
	if err != nil {
		return int64(got), t.conn.refuse(left-int64(got), &WriterError{Err: err})
	}
	return int64(got), nil
}

// splice has w read what has arrived of a value's last left bytes. Only w can make it wait, because the bytes are there: the
// server's timeout does not run meanwhile.
func (t *transfer) splice(w io.ReaderFrom, left int64) (int64, error) {
	c := t.conn
	there, err := c.awaitBytes()
	if err != nil {
		return 0, err
	}
	if err := c.readDeadline.clear(); err != nil {
		return 0, err
	}
	src := &io.LimitedReader{R: c.net, N: min(left, int64(there))}
	t.info.used = true
	n, err := w.ReadFrom(src)
	t.info.n += n
	if err == nil && src.N > 0 {
		err = io.ErrShortWrite
	}
	if err != nil {
		c.broken = true // how many bytes were taken from the connection is unknown
		if ctxErr := c.watcher.err(); ctxErr != nil {
			return n, ctxErr
		}
		return n, &WriterError{Err: err}
	}
	return n, nil
}

// A WriterError says that the writer of GetTo or GetRangeTo failed.
type WriterError struct{ Err error }

func (e *WriterError) Error() string { return fmt.Sprintf("redisbuf: writing the value: %v", e.Err) }

// Unwrap returns the writer's error.
func (e *WriterError) Unwrap() error { return e.Err }
