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

// A conn is a connection to one server, for one call at a time. Between calls, it holds no pooled
// block and no reference to the caller's memory.
type conn struct {
	net     net.Conn
	watcher watcher
	request
	in *bufio.Reader

	readDeadline, writeDeadline ioDeadline

	queue   [][]byte
	sending net.Buffers // part of queue that is not sent yet
	// raw is set for a TCP or Unix socket, and nil for any other connection. A TCP or Unix socket
	// sends all slices of the field queue with one writev.
	raw      syscall.RawConn
	buffered *bufio.Writer // set if raw is nil, for example for a TLS connection

	// State of the call that uses the connection now. queued is the number of bytes that were added
	// to c.queue (the data to send). written is the number of these bytes that were written.
	// Neither number includes the bytes that splice and sendfile move.
	calling         bool
	queued, written int64 // in bytes
	sent            bool  // the whole request was sent, so the server may execute it
	pipelined       bool  // replies to more than one command are expected

	keep   bool           // used by a Conn, so even a long unwanted value is skipped
	broken bool           // the connection cannot be used any more
	lost   bool           // the server has closed the connection or does not answer
	chain  millrace.Chain // received part of the value that GetChain is reading

	// The pool of connections uses the following fields.
	born      time.Time
	idleSince time.Time   // time when the last call returned the connection
	epoch     int         // the node's epoch when the connection was made
	replaced  atomic.Bool // the Sentinel has named another master
	peer      string      // address of the server; empty if the connection does not know it
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

// rawSocket returns the descriptor of a TCP or Unix stream socket, and nil for any other
// connection. A type that embeds a socket may encrypt or count the data, so it does not qualify.
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

// close closes a connection that no call uses. It does this in a new goroutine, because closing a
// TLS connection may wait for the peer.
func (c *conn) close() {
	c.watcher.stop()
	go c.net.Close()
}

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

// begin prepares the connection for a call. It must be called before the first command of the call.
func (c *conn) begin(ctx context.Context) error {
	c.calling, c.sent, c.queued, c.written = true, false, 0, 0
	if err := c.watcher.begin(ctx); err != nil {
		return err
	}
	return c.skipPushes()
}

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

// finish ends a call, after its last reply or an error. It returns the error of the call. If later
// calls cannot use the connection, finish marks it as broken.
func (c *conn) finish(ctx context.Context, err error) error {
	c.request.reset()
	c.unqueue()
	c.calling, c.pipelined = false, false
	if c.watcher.end() {
		c.broken = true
	}
	if err != nil && !c.usableAfter(err) {
		c.broken = true
		if ctxErr := ctx.Err(); ctxErr != nil {
			err = ctxErr
		}
		c.lost = isLoss(err)
	}
	if isRejection(err) {
		c.broken = true
	}
	if c.hasStrayBytes() {
		c.broken = true
	}
	return err
}

// usableAfter reports whether the connection can be used after a call that ended with err. The
// connection can be used if the last reply was an error, or was read to its end.
func (c *conn) usableAfter(err error) bool {
	switch err.(type) {
	case *BufferTooSmallError, *ValueTooLargeError, *ValueChangedError, *WriterError:
		return !c.broken
	}
	return isServerError(err)
}

// isRejection reports whether err is a reply after which the server closes the connection.
func isRejection(err error) bool {
	if err == nil || err == redis.Nil || !isServerError(err) {
		return false
	}
	return redis.HasErrorPrefix(err, "max number of clients") || redis.HasErrorPrefix(err, "DENIED")
}

// pendingError returns the error to report for a request that could not be sent. err is the write
// error. If the server sent an error reply before it closed the connection, pendingError returns
// the reply. Otherwise it returns err.
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

// pushRequest queues the bytes that were written to c.request since the last call.
func (c *conn) pushRequest() {
	p := c.request.nextPart()
	c.queue = append(c.queue, p)
	c.queued += int64(len(p))
}

// queueCommand queues a Redis command. It copies args, which should be short.
func (c *conn) queueCommand(args ...string) {
	c.beginCommand(len(args))
	for _, a := range args {
		c.arg(a)
	}
	c.pushRequest()
}

// maxQueue is the maximum number of byte slices that wait to be sent on a connection.
const maxQueue = 256

// push adds p to the queue of data to send. It borrows p until the next flush.
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

// flush sends the queued bytes. The write timeout applies to each write, not to the whole queue.
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

func (c *conn) unqueue() {
	clear(c.queue)
	c.queue, c.sending = c.queue[:0], nil
}

// flushBuffered sends the queue over a connection that is not a plain socket. It joins short
// slices, because each Write of a TLS connection makes a TLS record.
func (c *conn) flushBuffered() error {
	for _, p := range c.queue {
		if _, err := c.buffered.Write(p); err != nil {
			return err
		}
	}
	return c.buffered.Flush()
}

// writeStep is the maximum length of a Write over TLS, and of a TLS record. Each Write is short,
// because an interrupted Write makes the connection unusable.
const writeStep = 16 << 10

// A stepWriter writes at most writeStep bytes at a time. The write timeout applies to each step.
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

// A stepReader reads from a connection. The read timeout applies to each Read.
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

// ioError converts the error of a read or write. If the context has ended, it returns the context's
// error. It replaces io.EOF with io.ErrUnexpectedEOF.
func (c *conn) ioError(err error) error {
	if ctxErr := c.watcher.err(); ctxErr != nil {
		return ctxErr
	}
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
