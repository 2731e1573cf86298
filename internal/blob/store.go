package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/millrace-io/millrace/chunk"
)

// A Store keeps values under keys, which are as CheckKey wants them. All methods may be called from any goroutine, but
// Close only when no other is being called, and none afterwards.
type Store interface {
	// Serve answers a GET or HEAD request with the value of key: ranges, conditions and an entity tag included. If it
	// returns an error, nothing was answered. An answer that breaks off ends in a panic with http.ErrAbortHandler.
	Serve(w http.ResponseWriter, r *http.Request, key string) error

	// Put gives key the value that body has, and returns its entity tag and whether there was none before. It borrows
	// body, of which size bytes are read, or all of it if size is Unknown. If it returns an error other than ErrUnsure,
	// key is as it was.
	Put(ctx context.Context, key string, body io.Reader, size int64, put Put) (tag string, created bool, err error)

	// Check returns nil if only allows key to be written to at present.
	Check(ctx context.Context, key string, only Condition) error

	// Delete deletes key, if only allows that. Downloads that are under way go on.
	Delete(ctx context.Context, key string, only Condition) error

	// Sent returns how many bytes of values were sent, by the way they went.
	Sent() chunk.Report

	// Close ends what the store does by itself, and gives back what it holds.
	Close() error
}

// Unknown is the size of a body that comes without one.
const Unknown = -1

// Put says how a value is to be put.
type Put struct {
	Limit int64         // bytes that it may have
	TTL   time.Duration // how long it is there; 0: until it is deleted
	Only  Condition     // or nil
}

var (
	// ErrNotFound says that there is no such key.
	ErrNotFound = errors.New("there is no such blob")

	// ErrCondition says that a Condition did not allow it.
	ErrCondition = errors.New("the condition does not hold")

	// ErrFull says that the store has no room.
	ErrFull = errors.New("the store is full")

	// ErrUnsure says that nobody knows whether it was done.
	ErrUnsure = errors.New("the store has not answered: it may have been done, or not")
)

// A BodyError says that the body of a value failed.
type BodyError struct{ Err error }

func (e *BodyError) Error() string { return fmt.Sprintf("the body broke off: %v", e.Err) }

// Unwrap returns the body's error.
func (e *BodyError) Unwrap() error { return e.Err }

// A TooLargeError says that a value has more bytes than it may have.
type TooLargeError struct{ Limit int64 }

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("the value has more than the %d bytes that it may have", e.Limit)
}

// An UnavailableError says that the store cannot be reached for now. Nothing was done.
type UnavailableError struct{ Err error }

func (e *UnavailableError) Error() string {
	return fmt.Sprintf("the store cannot be reached: %v", e.Err)
}

// Unwrap returns the reason.
func (e *UnavailableError) Unwrap() error { return e.Err }

// HeaderTTL says, in seconds, how long a value is to be there (in a request) or still will be (in an answer).
const HeaderTTL = "Millrace-TTL"

// MaxTTL bounds a TTL, so that times can be reckoned with everywhere.
const MaxTTL = 100 * 365 * 24 * time.Hour

// ParseTTL reads a HeaderTTL: seconds, as in 90 or, in an answer, 89.999; or as in 1m30s. "" is 0.
func ParseTTL(s string) (time.Duration, error) {
	if s == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(s)
	if strings.Trim(s, "0123456789.") == "" {
		d, err = time.ParseDuration(s + "s")
	}
	if err != nil || d < time.Millisecond || d > MaxTTL {
		return 0, fmt.Errorf("%s is %.40q, want a time from 1ms to 100 years, as in 90 (seconds), 90s or 24h", HeaderTTL, s)
	}
	return d, nil
}

// describe sets what the header of an answer says about every value.
func describe(h http.Header, left time.Duration) {
	// Whoever puts a value does not say what type it is, and a browser must not guess: HTML would be a page of this
	// server.
	h.Set("Content-Type", "application/octet-stream")
	h.Set("X-Content-Type-Options", "nosniff")
	// It may be replaced at any time. To ask whether it was costs no body.
	h.Set("Cache-Control", "no-cache")
	if left > 0 {
		h.Set(HeaderTTL, strconv.FormatFloat(max(left, time.Millisecond).Seconds(), 'f', 3, 64)) // as a request may have it
	}
}

// A source is the body of a value. It remembers that it was the one that failed, and gives no more than limit bytes. What
// comes after the size that was told is not read.
type source struct {
	body  io.Reader
	limit int64
	left  int64
	err   error
}

func newSource(body io.Reader, size, limit int64) *source {
	if size != Unknown {
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

// failure returns the source's own error in the place of one that it has caused.
func (s *source) failure(err error) error {
	var large *TooLargeError
	switch {
	case errors.As(s.err, &large):
		return large
	case s.err != nil:
		return &BodyError{s.err}
	}
	return err
}
