package redisbuf

import (
	"errors"
	"fmt"
	"net"

	"github.com/redis/go-redis/v9"
)

// ErrClosed is returned by the methods of a closed Client or Conn. It is redis.ErrClosed.
var ErrClosed = redis.ErrClosed

var (
	// ErrConnLost is returned by the methods of a Conn after its connection was lost, or after the
	// Sentinel has chosen another master. In a Pipeline, it is the error of a call after an earlier
	// call made the connection unusable.
	ErrConnLost = errors.New("redisbuf: the connection was lost in an earlier call")

	// ErrConnBusy is returned by the methods of a Conn while another call of the Conn is running.
	// The running call continues.
	ErrConnBusy = errors.New("redisbuf: another call of the Conn is under way")

	// ErrOtherServer is returned by the methods of a Conn for a key on another server.
	ErrOtherServer = errors.New(
		"redisbuf: the key belongs to another server than the Conn's first one")
)

// A BufferTooSmallError reports that a value is longer than the buffer for it. The content of the
// buffer is undefined.
//
// If the value has at most 1 MiB, the Client reads and drops it. If the value is longer, the Client
// closes the connection. A Conn or a Pipeline always reads and drops the value, and keeps the
// connection.
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

// A ProtocolError reports that the server sent an invalid reply. The connection is closed.
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

// isServerError reports whether err is an error reply from the server. It returns false for a
// ReaderError or WriterError, even if that error wraps the error reply of another server.
func isServerError(err error) bool {
	switch err.(type) {
	case *ReaderError, *WriterError:
		return false
	}
	var e redis.Error
	return errors.As(err, &e)
}

// isTimeout reports whether err is a timeout of a read, a write, a dial or the caller's context.
func isTimeout(err error) bool {
	for err != nil {
		netErr, ok := errors.AsType[net.Error](err)
		if !ok || netErr.Timeout() {
			return ok
		}
		err = errors.Unwrap(netErr) // a *net.OpError, for example, does not look further
	}
	return false
}

func isDialError(err error) bool {
	dial, ok := errors.AsType[*net.OpError](err)
	return ok && dial.Op == "dial"
}

func isA[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}
