// Package limit limits concurrent operations, and waits for their end.
package limit

import (
	"log/slog"
	"time"

	"github.com/millrace-io/millrace/server/internal/lock"
)

// A Limiter limits the number of concurrent holders. A holder is an operation between Acquire and
// Release.
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

// New returns a Limiter for at most limit holders. If there are limit holders, Acquire returns the
// error full. After Close, it returns the error ending.
func New(limit int, full, ending error) *Limiter {
	return &Limiter{limit: limit, full: full, ending: ending, empty: make(chan struct{})}
}

// SetLimit replaces the arguments limit and full of New. If the limit is lowered, existing holders
// stay.
func (l *Limiter) SetLimit(limit int, full error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.limit, l.full = limit, full
}

// Acquire adds a holder. The caller must call Release when the operation ends. If the holder is
// refused, Acquire returns an error.
func (l *Limiter) Acquire() error { return l.acquire(false) }

// Force is like Acquire, but ignores the limit. It is for a few privileged holders.
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

// Release removes a holder that Acquire or Force has added.
func (l *Limiter) Release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held--
	if l.closed && l.held == 0 {
		close(l.empty)
	}
}

// Held returns the number of holders.
func (l *Limiter) Held() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held
}

// Refused returns how many holders were refused because of the limit.
func (l *Limiter) Refused() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.refused
}

// Close makes Acquire and Force refuse all further holders. It returns a channel that is closed
// when there are no holders any more.
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

// Grace is how long goroutines may take to end if nothing delays them. A publisher's goroutine may
// notice the end of the server only after the latency limit, which is at most a second.
const Grace = 3 * time.Second

// Await waits until done is closed. It waits no longer than Grace, because a bug must not prevent
// the process from ending. who names the goroutines for the log.
func Await(log *slog.Logger, who string, done <-chan struct{}) {
	grace := time.NewTimer(Grace)
	defer grace.Stop()
	select {
	case <-done:
	case <-grace.C:
		log.Error("stopping without them", "who", who)
	}
}
