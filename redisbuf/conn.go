package redisbuf

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/redis/go-redis/v9"
)

// A conn is a connection to one server. One call at a time uses it. Between calls it holds no
// pooled block, and no reference to the caller's memory.
type conn struct {
	net     net.Conn
	watcher watcher
	request
	in *bufio.Reader // received data

	readDeadline, writeDeadline ioDeadline

	queue   [][]byte    // data to send
	sending net.Buffers // the unsent end of queue, during flush
	// raw is set for a TCP or Unix socket, which takes the queue in one writev; otherwise it is
	// nil.
	raw      syscall.RawConn
	buffered *bufio.Writer // set for any other connection, such as TLS

	// State of the current call. Bytes that only the kernel moves do not count in queued and
	// written.
	calling         bool
	queued, written int64 // in bytes
	sent            bool  // the whole request was sent, so the server may execute it
	pipelined       bool  // replies to more than one command are expected

	keep   bool           // a Conn uses it and wants to keep it, even if that costs time
	broken bool           // the connection cannot be used any more
	lost   bool           // broken, because the server has closed the connection or does not answer
	chain  millrace.Chain // received part of a value that is being read

	// The remaining fields are for the node's pool.
	born      time.Time
	idleSince time.Time   // time when the last call returned the connection
	epoch     int         // the node's epoch when the connection was made
	replaced  atomic.Bool // the Sentinel has named another master
}

func newConn(netConn net.Conn, readTimeout, writeTimeout time.Duration) *conn {
	c := &conn{net: netConn, born: time.Now()}
	c.watcher.conn = netConn
	c.readDeadline = ioDeadline{set: netConn.SetReadDeadline, watcher: &c.watcher,
		timeout: readTimeout}
	c.writeDeadline = ioDeadline{set: netConn.SetWriteDeadline, watcher: &c.watcher,
		timeout: writeTimeout}
	c.in = bufio.NewReaderSize(stepReader{c}, lineLen)
	c.raw = rawSocket(netConn)
	if c.raw == nil {
		c.buffered = bufio.NewWriterSize(stepWriter{c}, writeStep)
	}
	return c
}

// rawSocket returns access to the descriptor of a TCP or Unix stream socket. For any other type it
// returns nil, because a type that embeds a socket may encrypt or count data.
func rawSocket(netConn net.Conn) syscall.RawConn {
	var raw syscall.RawConn
	var err error
	switch s := netConn.(type) {
	case *net.TCPConn:
		raw, err = s.SyscallConn()
	case *net.UnixConn:
		if a := s.LocalAddr(); a == nil || a.Network() != "unix" {
			return nil
		}
		raw, err = s.SyscallConn()
	}
	if err != nil {
		return nil // the connection's Write will return the error
	}
	return raw
}

// close closes a connection that no call uses. It does not wait, although the Close of a TLS
// connection may wait for its peer.
func (c *conn) close() {
	c.watcher.stop()
	go c.net.Close()
}

// run executes one command.
func (c *conn) run(ctx context.Context, cmd command) error {
	err := c.begin(ctx)
	if err == nil {
		err = c.send(cmd)
	}
	if err == nil {
		err = cmd.read(c)
	}
	return c.finish(ctx, err)
}

// begin prepares the connection for a call. It is called before the first command of the call.
func (c *conn) begin(ctx context.Context) error {
	c.calling, c.sent, c.queued, c.written = true, false, 0, 0
	if err := c.watcher.begin(ctx); err != nil {
		return err
	}
	return c.skipPushes()
}

// send sends a command.
func (c *conn) send(cmd command) error {
	err := cmd.compose(c)
	if err == nil {
		err = c.flush()
	}
	if err != nil {
		return c.pendingError(err)
	}
	c.sent = true
	return nil
}

// finish ends a call. It is called after the last reply of the call was read, or after reading a
// reply has failed with err. It returns the error for the caller.
func (c *conn) finish(ctx context.Context, err error) error {
	c.request.reset()
	c.unqueue()
	c.calling, c.pipelined = false, false
	if c.watcher.end() {
		c.broken = true
	}
	if err != nil && !c.aligned(err) {
		c.broken = true
		if ctxErr := ctx.Err(); ctxErr != nil {
			err = ctxErr
		}
		c.lost = isLoss(err)
	}
	if isRejection(err) {
		c.broken = true
	}
	if !c.behindReply() {
		c.broken = true
	}
	return err
}

// aligned reports whether, after err, the next byte from the server is the first byte of a reply.
// This is so if the last reply was an error, or was read to its end.
func (c *conn) aligned(err error) bool {
	switch err.(type) {
	case *BufferTooSmallError, *ValueTooLargeError, *ValueChangedError, *WriterError:
		return !c.broken
	}
	return isServerError(err)
}

// isRejection reports whether err is the reply of a server that has accepted the connection and is
// about to close it.
func isRejection(err error) bool {
	if err == nil || err == redis.Nil || !isServerError(err) {
		return false
	}
	return redis.HasErrorPrefix(err, "max number of clients") || redis.HasErrorPrefix(err, "DENIED")
}

// pendingError returns the error to report if the request could not be sent because of err. The
// server may have closed the connection after it had sent an error reply to the part of the request
// that it received. If so, pendingError returns that reply. Otherwise it returns err.
func (c *conn) pendingError(err error) error {
	if !closedByServer(err) {
		return err
	}
	c.broken = true
	if _, reply := c.readHeader(); reply != redis.Nil && isServerError(reply) {
		return reply
	}
	return err
}

// closedByServer reports whether a write has failed with err because the server has closed the
// connection. If it has, reading the rest does not block.
func closedByServer(err error) bool {
	return (errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)) &&
		!isA[*ReaderError](err)
}

// pushRequest queues the part of the request's text that is not queued yet.
func (c *conn) pushRequest() {
	p := c.request.part()
	c.queue = append(c.queue, p)
	c.queued += int64(len(p))
}

// command queues a command of short arguments.
func (c *conn) command(args ...string) {
	c.array(len(args))
	for _, a := range args {
		c.arg(a)
	}
	c.pushRequest()
}

// maxQueue is the maximum number of pieces of memory in the queue.
const maxQueue = 256

// push queues p. It borrows p until flush.
func (c *conn) push(p []byte) error {
	if len(c.queue) >= maxQueue {
		if err := c.flush(); err != nil {
			return err
		}
	}
	if len(p) > 0 {
		c.queue = append(c.queue, p)
		c.queued += int64(len(p))
	}
	return nil
}

// flush sends the queue, in steps. Each step may take the whole timeout.
func (c *conn) flush() error {
	defer c.unqueue()
	if c.buffered != nil {
		return c.flushBuffered()
	}
	c.sending = c.queue
	for len(c.sending) > 0 {
		if err := c.writeDeadline.renew(); err != nil {
			return err
		}
		n, err := c.sending.WriteTo(c.net)
		c.written += n
		if err != nil && (n == 0 || !errors.Is(err, os.ErrDeadlineExceeded)) {
			return c.ioError(err)
		}
	}
	return nil
}

// unqueue clears the queue.
func (c *conn) unqueue() {
	clear(c.queue)
	c.queue, c.sending = c.queue[:0], nil
}

// flushBuffered sends the queue with the connection's Write. It joins short pieces, because each
// Write makes a TLS record.
func (c *conn) flushBuffered() error {
	for _, p := range c.queue {
		if _, err := c.buffered.Write(p); err != nil {
			return err
		}
	}
	return c.buffered.Flush()
}

// writeStep limits, in bytes, one Write of the connection. If a deadline ends the Write of a TLS
// connection, the connection cannot be used any more. The deadline must therefore cover little
// data. writeStep is also the size of a TLS record.
const writeStep = 16 << 10

// A stepWriter writes to a connection in steps. Each step may take the whole timeout.
type stepWriter struct{ c *conn }

func (w stepWriter) Write(p []byte) (n int, err error) {
	c := w.c
	for n < len(p) {
		if err := c.writeDeadline.renew(); err != nil {
			return n, err
		}
		m, err := c.net.Write(p[n:min(len(p), n+writeStep)])
		n += m
		c.written += int64(m)
		if err != nil {
			return n, c.ioError(err)
		}
	}
	return n, nil
}

// A stepReader reads from a connection in steps. Each step may take the whole timeout.
type stepReader struct{ c *conn }

func (r stepReader) Read(p []byte) (int, error) {
	c := r.c
	if err := c.readDeadline.renew(); err != nil {
		return 0, err
	}
	n, err := c.net.Read(p)
	if n > 0 {
		return n, nil
	}
	return 0, c.ioError(err)
}

// ioError returns the caller's error for a read or write that has failed with err: the context's
// error if the context has ended, and otherwise err.
func (c *conn) ioError(err error) error {
	if ctxErr := c.watcher.err(); ctxErr != nil {
		return ctxErr
	}
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
