package redisbuf

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/millrace-io/millrace"
)

const (
	// relayBlock is the size of the block for bytes that the kernel cannot move directly.
	relayBlock = 64 << 10

	// minSplice is the minimum number of bytes for a splice. For fewer bytes, a copy is as fast.
	minSplice = 64 << 10
)

// GetTo writes the value of key to w, and returns the number of bytes written. All bytes are from
// one version of the value. The error is redis.Nil if the key does not exist.
//
// The kernel moves the bytes (splice) between two TCP connections, and from a Unix socket to a TCP
// connection. It also does so if w is an http.ResponseWriter with a Content-Length. Otherwise the
// bytes pass through one pooled block.
//
// If w is an http.ResponseWriter without a Content-Length, GetTo sets the Content-Length, unless
// the option [OnLength] is used. If the body has other bytes too, call WriteHeader, or set the
// Content-Length of the whole body, before GetTo. If the value is longer than the handler's
// Content-Length, GetTo writes nothing, and the error wraps http.ErrContentLength. GetTo does not
// count bytes written to the response before.
//
// If an http.ResponseWriter has no method ReadFrom, GetTo calls Unwrap() http.ResponseWriter to
// find the inner response, as chunk.Copy does. The wrapper then writes the header, but does not see
// the body. If the header has a Content-Encoding or a Vary: Accept-Encoding, the wrapper may encode
// the body, so GetTo writes to the wrapper. A wrapper that writes its status only with the first
// bytes of the body must not have Unwrap, because the status would be lost.
//
// A call that has written to w is not retried. If it fails, w has received a part of the value. An
// HTTP handler should then panic with http.ErrAbortHandler, so that its client detects the
// incomplete response.
//
// While w blocks, the server keeps the rest of the value in its memory.
//
// When ctx ends, GetTo interrupts a blocked Write by a call of SetWriteDeadline on w (for a
// response, as http.ResponseController does). If w has no method SetWriteDeadline, GetTo returns
// after the current Write. GetTo then removes the deadline, so the caller must set its own deadline
// again. An incomplete response keeps the deadline, so that net/http does not use the connection
// again.
func (c *Client) GetTo(ctx context.Context, key string, w io.Writer, opts ...GetToOption) (n int64,
	err error) {
	cmd := newGetTo(wholeOf(key), w, opts)
	err = c.do(ctx, cmd)
	c.storeEstimate(cmd.n, err)
	return cmd.n, err
}

// GetRangeTo writes n bytes of the value of key to w, starting at offset off, and returns the
// number of bytes written. It writes fewer bytes if the value ends earlier. A key that does not
// exist counts as an empty value, so GetRangeTo calls the function of [OnLength] with 0.
//
// GetRangeTo does not set a Content-Length, because several ranges may form one body. Otherwise it
// behaves like GetTo.
//
// For a long value that does not change, several ranges of 256 KiB to 1 MiB are faster than the
// whole value. They also delay other clients less, because a server copies all requested bytes
// before it serves the next client.
func (c *Client) GetRangeTo(ctx context.Context, key string, off, n int64, w io.Writer,
	opts ...GetToOption) (int64, error) {
	if off < 0 || n < 0 {
		return 0, errOffset
	}
	cmd := newGetTo(rangeOf(key, off, n), w, opts)
	if n == 0 {
		return 0, cmd.callOnLength(0)
	}
	err := c.do(ctx, cmd)
	return cmd.n, err
}

// A GetToOption configures a GetTo or GetRangeTo.
type GetToOption struct{ onLength func(n int64) error }

// OnLength makes GetTo or GetRangeTo call f with the number of bytes that it is going to write. f
// is called after the first byte of the value has arrived from the server, and before GetTo or
// GetRangeTo writes the first byte to its writer. f may itself write to this writer, for example
// the length.
//
// If f returns an error, the call writes nothing, and returns a *WriterError that wraps the error
// of f.
//
// f is called at most once, and the call is not retried after that. If the server replies with an
// error, f is not called. If there is no such key, GetTo does not call f, and GetRangeTo calls f
// with 0.
//
// The call keeps its connection while f runs, so f must not use the same Client.
func OnLength(f func(n int64) error) GetToOption { return GetToOption{onLength: f} }

type getToCmd struct {
	getHeader
	w        io.Writer
	onLength func(int64) error // may be nil
}

func newGetTo(get getHeader, w io.Writer, opts []GetToOption) *getToCmd {
	g := &getToCmd{getHeader: get, w: w}
	for _, opt := range opts {
		g.onLength = opt.onLength
	}
	return g
}

func (g *getToCmd) read(c *conn) error {
	size, err := c.readValueHeader()
	if err != nil {
		return err
	}
	if g.size > 0 && size > g.size {
		return badReply("%d bytes where %d were asked for", size, g.size)
	}
	if err := c.awaitValue(); err != nil {
		return err
	}
	g.used = true
	dst, isResponse := writeWakerOf(g.w)
	if err := c.watcher.guard(dst); err != nil {
		return err
	}
	complete := false
	defer func() { c.watcher.unguard(isResponse && !complete) }() // even if w panics
	if err := g.start(c, size); err != nil {
		return c.skipUnwanted(size, err)
	}
	block := millrace.DefaultPool().Get(relayBlock)
	defer block.Release()
	for left := size; left > 0; {
		var n int64
		w, ok := g.w.(io.ReaderFrom)
		if ok && left >= minSplice && c.canSplice() && c.in.Buffered() == 0 {
			n, err = g.splice(c, w, left)
		} else {
			n, err = g.copy(c, block.Bytes(), left)
		}
		if left -= n; err != nil {
			return err
		}
	}
	err = c.readEnd()
	complete = err == nil
	return err
}

// writeWakerOf returns the method that ends a blocked Write of w, or nil if there is none.
func writeWakerOf(w io.Writer) (dst writeWaker, isResponse bool) {
	if w, ok := w.(http.ResponseWriter); ok {
		// An http.ResponseController would unwrap a wrapper that wraps itself forever.
		dst, _ = unwrapTo[writeWaker](w)
		return dst, true
	}
	dst, _ = w.(writeWaker)
	return dst, false
}

func (g *getToCmd) weight(estimate int64) int64 {
	return cmp.Or(g.size, estimate)
}

// start prepares the writer for a value of size bytes. It calls the function of OnLength, sets the
// Content-Length, and sets g.w to the writer for the value.
func (g *getToCmd) start(c *conn, size int64) error {
	if err := g.callOnLength(size); err != nil {
		return err
	}
	w, ok := g.w.(http.ResponseWriter)
	if !ok {
		return nil
	}
	if exceedsLength(w.Header(), size) {
		return &WriterError{Err: http.ErrContentLength}
	}
	if g.size == 0 && g.onLength == nil {
		setContentLength(w, size)
	}
	if size >= minSplice && c.canSplice() {
		g.w = unwrapBody(w)
	}
	return nil
}

func (g *getToCmd) callOnLength(size int64) error {
	if g.onLength != nil {
		if err := g.onLength(size); err != nil {
			return &WriterError{Err: err}
		}
	}
	return nil
}

func (c *conn) awaitValue() error {
	if c.canSplice() && c.in.Buffered() == 0 {
		_, err := c.awaitBytes() // does not move the bytes to c.in, so they can be spliced
		return err
	}
	_, err := c.in.Peek(1)
	return err
}

// copy transfers bytes of the value from the connection to g.w, through buf. remaining is the
// number of unread bytes. copy returns the number of bytes read.
func (g *getToCmd) copy(c *conn, buf []byte, remaining int64) (int64, error) {
	got, err := c.in.Read(buf[:min(remaining, int64(len(buf)))])
	if err != nil {
		return int64(got), err
	}
	n, err := g.w.Write(buf[:got])
	g.n += int64(min(max(n, 0), got))
	if err == nil && n != got {
		err = io.ErrShortWrite
	}
	if err != nil {
		return int64(got), c.skipUnwanted(remaining-int64(got), &WriterError{Err: err})
	}
	return int64(got), nil
}

// splice waits until bytes of a value have arrived, and then lets w read them directly from the
// connection. The parameter remaining is the number of bytes of the value that have not been read.
// The result is the number of bytes that w has read.
//
// While w reads, there is no read deadline. The bytes have already arrived, so the server cannot
// cause a delay.
func (g *getToCmd) splice(c *conn, w io.ReaderFrom, remaining int64) (int64, error) {
	there, err := c.awaitBytes()
	if err != nil {
		return 0, err
	}
	if err := c.readDeadline.clear(); err != nil {
		return 0, err
	}
	asked := min(remaining, int64(there))
	src := &io.LimitedReader{R: c.net, N: asked}
	n, err := w.ReadFrom(src)
	if err == nil && (n != asked || src.N > 0) {
		err = io.ErrShortWrite
	}
	n = min(max(n, 0), asked-src.N)
	g.n += n
	if err != nil {
		c.broken = true // the number of bytes read from the connection is unknown
		if ctxErr := c.watcher.err(); ctxErr != nil {
			return n, ctxErr
		}
		return n, &WriterError{Err: err}
	}
	return n, nil
}

// A WriterError reports that the writer of GetTo or GetRangeTo, or the function of [OnLength],
// failed.
type WriterError struct{ Err error }

func (e *WriterError) Error() string {
	return fmt.Sprintf("redisbuf: writing the value: %v", e.Err)
}

// Unwrap returns e.Err.
func (e *WriterError) Unwrap() error { return e.Err }
