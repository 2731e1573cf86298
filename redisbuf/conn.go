package redisbuf

import (
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/redis/go-redis/v9"
)

// A conn is a connection to one server, used by one call at a time. It holds no block between calls.
//
// Invariant, between calls: the request is empty, and the inbox has nothing but the beginning of a push; or broken.
type conn struct {
	*wire
	inbox
	request

	headerLen int            // of the last value's header, 0 if there was none yet
	expect    int            // how long the last value was that was received into blocks
	maxValue  int64          // longer ones are a ProtocolError
	keep      bool           // the connection is worth more than the time to step over a long value
	watching  bool           // a key of an earlier call is still watched
	unwatched bool           // the next replies are those to composeUnwatch
	whole     bool           // the server does not let values be read in pieces
	asking    bool           // the call is for a slot that is moving to this server
	pipelined bool           // more replies than the one that is read may be under way
	broken    bool           // what the server sends next is not what the next call asks for
	lost      bool           // and that is because the server has closed the connection, or is silent
	chain     millrace.Chain // of a value that is being read

	born   time.Time
	losses int64       // the node's when it was made, or looked at
	used   atomic.Bool // a call or a Conn has it
	left   atomic.Bool // the server is not the master any more
}

func newConn(netConn net.Conn, readTimeout, writeTimeout time.Duration, maxValue int64) *conn {
	return &conn{wire: newWire(netConn, readTimeout, writeTimeout), maxValue: maxValue, born: time.Now()}
}

// begin is called before a command is built.
func (c *conn) begin(ctx context.Context) error { return c.wire.begin(ctx) }

// finish is called after a command's reply has been read, with the error of reading it. It returns what the caller is
// told.
func (c *conn) finish(ctx context.Context, err error) error {
	c.request.release()
	c.pipelined, c.asking = false, false
	if !c.wire.end() {
		c.broken = true
	}
	if err != nil && !c.inOrder(err) {
		c.broken = true
		if ctxErr := ctx.Err(); ctxErr != nil && !isServerError(err) {
			err = ctxErr
		}
		c.lost = isLoss(err)
	}
	if isFarewell(err) {
		c.broken = true
	}
	if !c.broken && !c.stepOverPushes() {
		c.broken = true
	}
	if c.broken {
		c.inbox.clear()
	}
	return err
}

// inOrder reports whether the connection can be used after err: it is a reply, or is about one that was read to its end.
func (c *conn) inOrder(err error) bool {
	switch err.(type) {
	case *BufferTooSmallError, *ValueTooLargeError, *ValueChangedError, *WriterError:
		return !c.broken
	}
	return err == errNotInPieces && !c.broken || isServerError(err)
}

// isFarewell reports whether err is what a server says to a connection that it has accepted and does not want. It closes it.
func isFarewell(err error) bool {
	if err == nil || err == redis.Nil || !isServerError(err) {
		return false
	}
	return redis.HasErrorPrefix(err, "max number of clients") || redis.HasErrorPrefix(err, "DENIED")
}

// lastWords returns the error that the server has replied with before it closed the connection, instead of err, which says
// that the rest of the request cannot be sent: it has refused what it had seen so far.
func (c *conn) lastWords(err error) error {
	if c.sent || !hungUpOn(err) {
		return err
	}
	c.broken = true
	if _, words := c.readHeader(); words != redis.Nil && isServerError(words) {
		return words
	}
	return err
}

// hungUpOn reports whether err says that the server has closed the connection, so that whoever reads what is left does
// not wait.
func hungUpOn(err error) bool {
	return (errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)) && !isReaderError(err)
}

// cut returns the error for a reply that is missing.
func cut(err error) error {
	if err == io.EOF {
		return errClosedByServer
	}
	return err
}
