package redisbuf

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/semaphore"
)

// A limiter is a semaphore that also reports how many units are taken and how many callers wait.
type limiter struct {
	sem     *semaphore.Weighted
	closing context.Context // when it ends, callers stop waiting
	taken   atomic.Int64
	waiting atomic.Int64
}

func newLimiter(size int64, closing context.Context) *limiter {
	return &limiter{sem: semaphore.NewWeighted(size), closing: closing}
}

// acquire takes n units of the semaphore, and waits for them if necessary. The caller must return
// the units with release. acquire fails if ctx ends or the Client is closed. If timeout is
// positive, acquire also fails when it has waited that long.
func (l *limiter) acquire(ctx context.Context, n int64, timeout time.Duration) error {
	if !l.sem.TryAcquire(n) {
		if err := l.wait(ctx, n, timeout); err != nil {
			return err
		}
	}
	l.taken.Add(n)
	return nil
}

func (l *limiter) wait(ctx context.Context, n int64, timeout time.Duration) error {
	l.waiting.Add(1)
	defer l.waiting.Add(-1)
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(l.closing, func() { cancel(ErrClosed) })()
	if timeout > 0 {
		defer time.AfterFunc(timeout, func() { cancel(redis.ErrPoolTimeout) }).Stop()
	}
	if l.sem.Acquire(inner, n) == nil {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return context.Cause(inner)
}

// release returns n units to the semaphore. n may be 0.
func (l *limiter) release(n int64) {
	if n > 0 {
		l.taken.Add(-n)
		l.sem.Release(n)
	}
}
