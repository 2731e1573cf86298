package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/millrace-io/millrace"
)

// A Store stores values under keys that CheckKey accepts. Its methods are safe for concurrent use,
// except Close. No method may be called after Close.
type Store interface {
	// Open returns the value of key, or ErrNotFound. The caller must close the value.
	Open(ctx context.Context, key string) (*Value, error)

	// Put reads a value from body, and assigns it to key. size is the length of the value, or
	// unknownSize if the value extends to the end of body. Put borrows body. It returns the entity
	// tag of the value, and whether key is new. After an error other than ErrUnsure, the value of
	// key is unchanged.
	Put(ctx context.Context, key string, body io.Reader, size int64, put Put) (tag string,
		created bool, err error)

	// Check returns ErrCondition if cond does not allow a write to key at present.
	Check(ctx context.Context, key string, cond Condition) error

	// Delete deletes the value of key if cond allows it. An open Value stays readable.
	Delete(ctx context.Context, key string, cond Condition) error

	// Close stops the store's goroutines and closes its files and connections.
	Close() error
}

// A Value is one version of a blob. It does not change, even if the blob is replaced or deleted.
// The caller must call Close.
type Value struct {
	Tag     string        // entity tag, in quotes
	TTL     time.Duration // time until the value expires; 0 if it does not expire
	Content io.ReadSeekCloser

	blocks *millrace.Pool
}

// Close closes the content.
func (v *Value) Close() error { return v.Content.Close() }

const unknownSize = -1

// A Put has the options of Store.Put: the maximum length of the value, its time to live, and a
// condition for the write.
type Put struct {
	Limit int64         // maximum length of the value in bytes
	TTL   time.Duration // time until the value expires; 0 if it does not expire
	Only  Condition     // condition for the write; may be nil
}

var (
	// ErrNotFound reports that the key does not exist.
	ErrNotFound = errors.New("no such blob")

	// ErrCondition reports that a Condition did not allow the operation.
	ErrCondition = errors.New("the condition does not hold")

	// ErrFull reports that the store is full.
	ErrFull = errors.New("the store is full")

	// ErrUnsure reports that the store has not answered, so the change may or may not have been
	// made.
	ErrUnsure = errors.New("the store did not confirm the change: it may or may not have been made")

	// ErrUnavailable reports that the store cannot be reached. The call has changed nothing.
	ErrUnavailable = errors.New("the store cannot be reached")

	// ErrBody reports that Put could not read a complete value from its io.Reader, the body. An
	// error that wraps ErrBody also wraps the read error, such as io.ErrUnexpectedEOF.
	ErrBody = errors.New("the body broke off")
)

// A TooLargeError reports that a value has more than Limit bytes.
type TooLargeError struct{ Limit int64 }

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("the value has more than the %d bytes that it may have", e.Limit)
}

// HeaderTTL is a header of requests and responses. It contains the time in seconds until a value
// expires.
const HeaderTTL = "Millrace-TTL"

// maxTTL is the maximum TTL. The limit prevents overflows in time calculations.
const maxTTL = 100 * 365 * 24 * time.Hour

// ParseTTL parses the value of HeaderTTL. The value is a number of seconds, such as 90 or 89.999,
// or a duration in Go's format, such as 1m30s. The TTL of "" is 0.
func ParseTTL(s string) (time.Duration, error) {
	if s == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(s)
	if strings.Trim(s, "0123456789.") == "" {
		d, err = time.ParseDuration(s + "s")
	}
	if err != nil || d < time.Millisecond || d > maxTTL {
		return 0, fmt.Errorf(
			"%s is %.40q, want a time from 1ms to 100 years, as in 90 (seconds), 90s or 24h",
			HeaderTTL, s)
	}
	return d, nil
}

// A source reads the body of a value. If the body has more than limit bytes, Read returns a
// TooLargeError. If the caller announced the size of the body, the source reads no more bytes than
// announced. After Read has failed, [source.failure] returns the error.
type source struct {
	body  io.Reader
	limit int64
	left  int64
	err   error
}

func newSource(body io.Reader, size, limit int64) *source {
	if size != unknownSize {
		body = io.LimitReader(body, size)
	}
	return &source{body: body, limit: limit, left: limit}
}

// Read reads from the body. If the body is longer than the limit, it returns a TooLargeError.
func (s *source) Read(p []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	if len(p) == 0 {
		return 0, nil
	}
	n, err := s.body.Read(p[:min(int64(len(p)), s.left+1)]) // one more, to detect excess
	if int64(n) > s.left {
		n, err = int(s.left), &TooLargeError{s.limit}
	}
	s.left -= int64(n)
	if err != nil && err != io.EOF {
		s.err = err
	}
	return n, err
}

const copyBlock = 32 << 10

// copyTo copies the rest of the body to w until ctx ends, and returns the number of bytes written.
func (s *source) copyTo(ctx context.Context, w io.Writer, blocks *millrace.Pool) (total int64,
	err error) {
	block := blocks.Get(copyBlock)
	defer block.Release()
	for ctx.Err() == nil {
		n, err := s.Read(block.Bytes())
		m, writeErr := w.Write(block.Bytes()[:n])
		total += int64(m)
		if writeErr != nil {
			return total, writeErr
		} else if err == io.EOF {
			return total, nil
		} else if err != nil {
			return total, err
		}
	}
	return total, ctx.Err()
}

// failure returns the error of Read if Read has failed, and err otherwise.
func (s *source) failure(err error) error {
	var large *TooLargeError
	switch {
	case errors.As(s.err, &large):
		return large
	case s.err != nil:
		return fmt.Errorf("%w: %w", ErrBody, s.err)
	}
	return err
}
