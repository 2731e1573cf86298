package redisbuf

import (
	"errors"
	"fmt"
	"net"

	"github.com/redis/go-redis/v9"
)

// ErrClosed is returned by the methods of a Client or Conn that is closed. It is redis.ErrClosed.
var ErrClosed = redis.ErrClosed

var (
	// ErrConnLost is returned by the calls of a Conn if the Conn lost its connection in an earlier
	// call, or if its server is no longer the Sentinel's master.
	ErrConnLost = errors.New("redisbuf: the connection was lost in an earlier call")

	// ErrConnBusy is returned by the calls and the Close of a Conn while another call of the Conn
	// is running. That call continues.
	ErrConnBusy = errors.New("redisbuf: another call of the Conn is under way")

	// ErrOtherServer is returned by a call of a Conn if the call's key is not on the Conn's server.
	ErrOtherServer = errors.New(
		"redisbuf: the key belongs to another server than the Conn's first one")
)

// A BufferTooSmallError reports that a value is longer than the buffer for it. The content of the
// buffer is undefined. The Client reads and drops a value of at most 1 MiB, and any value on the
// connection of a Conn or a Pipeline. For any other value, it closes the connection, and makes
// another one for the next call.
type BufferTooSmallError struct {
	Need int64 // length of the value
	Have int64 // length of the buffer
}

func (e *BufferTooSmallError) Error() string {
	return fmt.Sprintf("redisbuf: the value has %d bytes, the buffer %d", e.Need, e.Have)
}

// A ValueTooLargeError reports that a value is longer than the caller's limit. None of it was read.
type ValueTooLargeError struct {
	Size  int64 // length of the value
	Limit int64
}

func (e *ValueTooLargeError) Error() string {
	return fmt.Sprintf("redisbuf: the value has %d bytes, more than the limit of %d", e.Size,
		e.Limit)
}

// A ProtocolError reports that the server sent something that is not a valid reply to the request.
// The connection is closed.
type ProtocolError struct {
	Reason string
}

func (e *ProtocolError) Error() string { return "redisbuf: bad reply from the server: " + e.Reason }

func badReply(format string, args ...any) error {
	return &ProtocolError{Reason: fmt.Sprintf(format, args...)}
}

var (
	errOffset      = errors.New("redisbuf: a negative offset or length")
	errNotExecuted = errors.New("redisbuf: the pipeline was not executed yet")
)

// A SentError reports that a SET was sent completely, and that the connection ended before the
// reply arrived. The server may have executed the SET, may still execute it, or may never have
// received it.
type SentError struct {
	Err error // the reason why the connection ended
}

func (e *SentError) Error() string {
	return "redisbuf: no reply, and the command may have been executed: " + e.Err.Error()
}

// Unwrap returns the reason why the connection ended.
func (e *SentError) Unwrap() error { return e.Err }

// A serverError is a server's error reply. redis.HasErrorPrefix, redis.IsReadOnlyError and similar
// functions treat it like go-redis' own errors.
type serverError string

func (e serverError) Error() string { return string(e) }

// RedisError marks serverError as a redis.Error.
func (serverError) RedisError() {}

// isServerError reports whether err is a reply of the server. An error of the caller's reader or
// writer is not, even if it wraps the reply of another server.
func isServerError(err error) bool {
	switch err.(type) {
	case *ReaderError, *WriterError:
		return false
	}
	var e redis.Error
	return errors.As(err, &e)
}

// isTimeout reports whether a deadline of a connection has passed.
func isTimeout(err error) bool {
	netErr, ok := errors.AsType[net.Error](err)
	return ok && netErr.Timeout()
}

// isDialError reports whether no connection could be made.
func isDialError(err error) bool {
	dial, ok := errors.AsType[*net.OpError](err)
	return ok && dial.Op == "dial"
}

// isA reports whether err is an E or wraps one.
func isA[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}
