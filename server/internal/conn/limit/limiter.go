// Package limit limits concurrent operations, and waits for their end.
package limit

import (
	"log/slog"
	"time"

	"github.com/millrace-io/millrace/server/internal/lock"
)

// A Limiter admits a limited number of holders at a time, and refuses others with an error.
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

// New returns a Limiter for at most limit holders. Acquire returns the error full at the limit, and
// the error ending after Close.
func New(limit int, full, ending error) *Limiter {
	return &Limiter{limit: limit, full: full, ending: ending, empty: make(chan struct{})}
}

// SetLimit replaces the arguments limit and full of New. If the limit becomes lower, the present
// holders stay.
func (l *Limiter) SetLimit(limit int, full error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.limit, l.full = limit, full
}

// Acquire admits a holder, which must call Release later, or returns the error of the refusal.
func (l *Limiter) Acquire() error { return l.acquire(false) }

// Force is Acquire without the limit. It is for a few privileged holders.
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

// Release ends what Acquire or Force began.
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

// Refused returns the number of holders that were refused at the limit so far.
func (l *Limiter) Refused() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.refused
}

// Close refuses new holders. It returns a channel that is closed when the last holder has released.
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

// Grace is how long goroutines may take to end when nothing delays them. A publisher's goroutine
// reads its connection once per latency bound, which is at most a second.
const Grace = 3 * time.Second

// Await waits until done is closed, but at most for Grace, because a bug must not keep the process
// from ending.
func Await(log *slog.Logger, who string, done <-chan struct{}) {
	grace := time.NewTimer(Grace)
	defer grace.Stop()
	select {
	case <-done:
	case <-grace.C:
		log.Error("stopping without them", "who", who)
	}
}
