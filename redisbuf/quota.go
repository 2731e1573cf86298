package redisbuf

import (
	"context"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
)

// A queue is a semaphore that knows how many wait for it.
type queue struct {
	*semaphore.Weighted
	waiting atomic.Int64
}

// Acquire waits for n.
func (q *queue) Acquire(ctx context.Context, n int64) error {
	q.waiting.Add(1)
	defer q.waiting.Add(-1)
	return q.Weighted.Acquire(ctx, n)
}

// A quota is a queue that knows how much is taken, too.
//
// Invariant: 0 ≤ taken ≤ what there is.
type quota struct {
	queue
	taken atomic.Int64
}

func newQuota(size int64) *quota { return &quota{queue: queue{Weighted: semaphore.NewWeighted(size)}} }

// Acquire waits for n.
func (q *quota) Acquire(ctx context.Context, n int64) error {
	err := q.queue.Acquire(ctx, n)
	if err == nil {
		q.taken.Add(n)
	}
	return err
}

// TryAcquire takes n if nobody has to wait for that.
func (q *quota) TryAcquire(n int64) bool {
	ok := q.queue.TryAcquire(n)
	if ok {
		q.taken.Add(n)
	}
	return ok
}

// Release gives n back.
func (q *quota) Release(n int64) {
	q.taken.Add(-n)
	q.queue.Release(n)
}
