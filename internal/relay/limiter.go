package relay

import "sync"

// A Limiter admits a bounded number of holders at a time.
type Limiter struct {
	// Invariants, while mu is not held:
	//
	//	0 ≤ held ≤ limit
	//	empty is closed if, and only if, closed and held == 0

	limit  int
	mu     sync.Mutex
	held   int
	closed bool
	empty  chan struct{}
}

// NewLimiter returns a Limiter for at most limit holders.
func NewLimiter(limit int) *Limiter {
	return &Limiter{limit: limit, empty: make(chan struct{})}
}

// Acquire admits a holder, which Release ends. It reports false when there are as many as may be, or after Close.
func (l *Limiter) Acquire() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.held >= l.limit {
		return false
	}
	l.held++
	return true
}

// Release ends what Acquire began.
func (l *Limiter) Release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held--
	if l.closed && l.held == 0 {
		close(l.empty)
	}
}

// Held returns how many holders there are.
func (l *Limiter) Held() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held
}

// Closed reports whether Close was called.
func (l *Limiter) Closed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

// Close admits no more holders. It returns a channel that is closed when the last one has gone.
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
