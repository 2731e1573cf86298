// Package limit restricts the number of concurrent operations, and waits until running operations
// have ended.
package limit

import (
	"context"
	"log/slog"
	"time"

	"github.com/millrace-io/millrace/server/internal/lock"
)

// A Limiter limits the number of concurrent operations. An operation begins with Acquire or Force,
// and ends with Release.
type Limiter struct {
	// Invariants while mu is not held:
	//
	//	0 ≤ held
	//	empty is closed if, and only if, closed and held == 0

	ending error

	mu      lock.Mutex
	limit   int
	full    error
	held    int
	refused int64
	closed  bool
	empty   chan struct{}
}

// New returns a Limiter that allows up to limit operations at a time. At the limit, Acquire returns
// errFull. After Close, Acquire and Force return errClosed.
func New(limit int, errFull, errClosed error) *Limiter {
	return &Limiter{limit: limit, full: errFull, ending: errClosed, empty: make(chan struct{})}
}

// SetLimit changes the limit, and the error that Acquire returns at the limit. A lower limit does
// not stop running operations.
func (l *Limiter) SetLimit(limit int, errFull error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.limit, l.full = limit, errFull
}

// Acquire begins an operation. The caller must call Release when the operation ends. If the
// operation is refused, Acquire returns an error, and the caller must not call Release.
func (l *Limiter) Acquire() error { return l.acquire(false) }

// Force begins an operation like Acquire, but ignores the limit. It is for a few privileged
// operations.
func (l *Limiter) Force() error { return l.acquire(true) }

func (l *Limiter) acquire(above bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return l.ending
	case l.held >= l.limit && !above:
		l.refused++
		return l.full
	}
	l.held++
	return nil
}

// Release ends an operation that Acquire or Force has begun.
func (l *Limiter) Release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held--
	if l.closed && l.held == 0 {
		close(l.empty)
	}
}

// Held returns the number of running operations.
func (l *Limiter) Held() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held
}

// Refused returns how many operations Acquire has refused because of the limit. It does not count
// refusals after Close.
func (l *Limiter) Refused() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.refused
}

// Close makes Acquire and Force refuse all further operations. It returns a channel that is closed
// when no operation is running any more.
func (l *Limiter) Close() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.closed = true
		if l.held == 0 {
			close(l.empty)
		}
	}
	return l.empty
}

// Grace is how long the server waits for goroutines to end. If nothing delays them, they need less
// time. A publisher's goroutine may notice the shutdown only after the time set by --latency, which
// is at most a second.
const Grace = 3 * time.Second

// Await waits until the channel done is closed, but no longer than Grace, so that a bug cannot
// prevent the process from ending. The caller passes a name for the awaited operations, such as
// "downloads". If Grace has passed, Await logs an error with this name.
func Await(log *slog.Logger, name string, done <-chan struct{}) {
	grace := time.NewTimer(Grace)
	defer grace.Stop()
	select {
	case <-done:
	case <-grace.C:
		log.Error("stopping without them", "who", name)
	}
}

// AwaitContext waits until the channel done is closed. If ctx ends first, it returns the error of
// ctx. If done is closed already, AwaitContext returns nil, even if ctx has ended too.
func AwaitContext(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	select {
	case <-done:
		return nil
	default:
		return ctx.Err()
	}
}
