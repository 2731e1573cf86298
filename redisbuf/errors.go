package redisbuf

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/redis/go-redis/v9"
)

// ErrClosed is returned by the methods of a Client or Conn that is closed. It is redis.ErrClosed.
var ErrClosed = redis.ErrClosed

var (
	// ErrConnLost is returned by the calls of a Conn whose connection was lost in an earlier one, or leads to a server that
	// is not the Sentinel's master any more.
	ErrConnLost = errors.New("redisbuf: the connection was lost in an earlier call")

	// ErrConnBusy is returned by a Conn's Close and calls while another call of it is under way: from within the reader or
	// writer of that one, or from another goroutine. The other call goes on.
	ErrConnBusy = errors.New("redisbuf: another call of the Conn is under way")

	// ErrOtherServer is returned by the calls of a Conn for a key that is not on the server of its first call's key.
	ErrOtherServer = errors.New("redisbuf: the key belongs to another server than the Conn's first one")
)

// A BufferTooSmallError says that a value did not fit into the memory that it was to be read to. What is in that memory
// now is not defined. The Client goes on working. So does the connection if at most 1 MiB of the value is left to step
// over, or if it is that of a Conn or a Pipeline; otherwise it is given up, and the next call makes a new one.
type BufferTooSmallError struct {
	Need int64 // bytes that the value has
	Have int64 // bytes that there were
}

func (e *BufferTooSmallError) Error() string {
	return fmt.Sprintf("redisbuf: the value has %d bytes, the buffer %d", e.Need, e.Have)
}

// A ValueTooLargeError says that a value is longer than the caller's limit. None of it was read.
type ValueTooLargeError struct {
	Size  int64 // bytes that the value has
	Limit int64
}

func (e *ValueTooLargeError) Error() string {
	return fmt.Sprintf("redisbuf: the value has %d bytes, more than the limit of %d", e.Size, e.Limit)
}

// A ProtocolError says that the server sent something that is no reply to the request. Its connection is closed.
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

	// errUnhandled says that the kernel cannot move bytes from such a file.
	errUnhandled = errors.New("redisbuf: not for the kernel")
)

// A SentError says that a command that changes something was sent, and that the connection ended before the reply came.
// The server may have executed it, and may be about to.
type SentError struct {
	Err error // how the connection ended
}

func (e *SentError) Error() string {
	return "redisbuf: no reply, and the command may have been executed: " + e.Err.Error()
}

// Unwrap returns how the connection ended.
func (e *SentError) Unwrap() error { return e.Err }

// serverError returns the error that a server has replied with as go-redis does, so that errors.Is, redis.HasErrorPrefix
// and redis.IsReadOnlyError and its like say the same as they do there. The type has no name outside of go-redis, but
// redis.Nil is of it.
func serverError(text string) error {
	v := reflect.New(reflect.TypeOf(redis.Nil)).Elem()
	v.SetString(text)
	return v.Interface().(error)
}

// isServerError reports whether err is a reply, which leaves the connection in order. What the caller's reader or writer has
// failed with is none, even if it is a reply of another server.
func isServerError(err error) bool {
	switch err.(type) {
	case *ReaderError, *WriterError:
		return false
	}
	var e redis.Error
	return errors.As(err, &e)
}
