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

// A Store keeps values under keys that CheckKey accepts. Its methods may be called from any
// goroutine, but Close only when no other call is running, and no call may follow it.
type Store interface {
	// Open returns the value of key, or ErrNotFound. The call that ends the value's life is its
	// Close.
	Open(ctx context.Context, key string) (*Value, error)

	// Put gives key the value that body has, and returns its entity tag and whether key is new. It
	// borrows body and reads size bytes of it, or all of it if size is unknownSize. After an error
	// other than ErrUnsure, key is as it was.
	Put(ctx context.Context, key string, body io.Reader, size int64, put Put) (tag string,
		created bool, err error)

	// Check returns nil if only allows a write to key at present, and ErrCondition otherwise.
	Check(ctx context.Context, key string, only Condition) error

	// Delete deletes key, if only allows that. A Value that is open stays whole.
	Delete(ctx context.Context, key string, only Condition) error

	// Close stops the store's goroutines and closes its files and connections.
	Close() error
}

// A Value is one version of a blob. It never changes, even if the blob is replaced or deleted. The
// call that ends its life is Close.
type Value struct {
	Tag     string        // its entity tag, in quotes
	TTL     time.Duration // how long it will be there; 0: until it is deleted
	Content io.ReadSeekCloser

	blocks *millrace.Pool
}

// Close closes the content.
func (v *Value) Close() error { return v.Content.Close() }

// unknownSize is the size of a body that comes without a length.
const unknownSize = -1

// Put has the conditions of a Store's Put.
type Put struct {
	Limit int64         // bytes that it may have
	TTL   time.Duration // how long the value will be there; 0: until it is deleted
	Only  Condition     // or nil
}

var (
	// ErrNotFound says that there is no such key.
	ErrNotFound = errors.New("no such blob")

	// ErrCondition says that a Condition did not allow it.
	ErrCondition = errors.New("the condition does not hold")

	// ErrFull says that the store has no room.
	ErrFull = errors.New("the store is full")

	// ErrUnsure says that the store has not answered, so that the change was made or not.
	ErrUnsure = errors.New("the store has not answered: it may have been done, or not")

	// ErrUnavailable says that the store cannot be reached for now. Nothing was done.
	ErrUnavailable = errors.New("the store cannot be reached")

	// ErrBody says that the body of a value failed. The error wraps the body's own.
	ErrBody = errors.New("the body broke off")
)

// A TooLargeError says that a value has more bytes than it may have.
type TooLargeError struct{ Limit int64 }

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("the value has more than the %d bytes that it may have", e.Limit)
}

// HeaderTTL is the header that says, in seconds, how long a value will be there, in requests and in
// answers.
const HeaderTTL = "Millrace-TTL"

// maxTTL bounds a TTL, so that times do not overflow.
const maxTTL = 100 * 365 * 24 * time.Hour

// ParseTTL reads a HeaderTTL: seconds, as in 90 or, in an answer, 89.999; or as in 1m30s. "" is 0.
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

// A source is the body of a value. It returns at most limit bytes, reads no more than the size, and
// remembers its error.
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

// Read implements io.Reader.
func (s *source) Read(p []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	if len(p) == 0 {
		return 0, nil
	}
	n, err := s.body.Read(p[:min(int64(len(p)), s.left+1)]) // one more shows that there are more
	if int64(n) > s.left {
		n, err = int(s.left), &TooLargeError{s.limit}
	}
	s.left -= int64(n)
	if err != nil && err != io.EOF {
		s.err = err
	}
	return n, err
}

// copyBlock is the size of copyTo's reads and writes.
const copyBlock = 32 << 10

// copyTo copies the rest to w, until ctx ends, and returns how many bytes w accepted.
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

// failure returns the source's own error if there is one, and err otherwise.
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
