package hook

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace/server/internal/lock"
)

const (
	// maxEnds bounds the ends that wait for delivery: all viewers of a server may end at once. Each
	// takes about 500 bytes.
	maxEnds = 8192
	// endWorkers is how many are delivered at a time. There is one end for each ID, so that their
	// order does not matter.
	endWorkers = 2
	// endPatience is how long an end is tried: as long as a hook takes to start again.
	endPatience = 30 * time.Second
	// endGrace is the time for ends if the time of Close is over.
	endGrace = time.Second
	// endCheck is how long Close waits for the next end to be delivered by a hook that fails.
	endCheck = time.Second
)

// An endQueue delivers ends to the hook. Its methods are for any goroutine.
type endQueue struct {
	poster  *poster
	counts  *counter
	log     *slog.Logger
	timeout time.Duration   // of one attempt
	closing context.Context // ends with the last moment of Client.Close

	queue   chan Request
	workers sync.WaitGroup

	delivered, undelivered atomic.Int64 // attempts

	mu      lock.Mutex
	closed  bool
	dropped int64
}

// start starts the goroutines that deliver ends.
func (q *endQueue) start() {
	for range endWorkers {
		q.workers.Go(q.deliverAll)
	}
}

// add queues an end. It never waits.
func (q *endQueue) add(e Request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.closed {
		select {
		case q.queue <- e:
			return
		default:
		}
	}
	q.drop(&e, fmt.Errorf("%d ends wait", len(q.queue)))
}

// drop counts an end that the hook does not get, and logs some of them. q.mu is held.
func (q *endQueue) drop(e *Request, why error) {
	q.dropped++
	q.counts.count(e.Event, "dropped")
	if q.dropped&(q.dropped-1) == 0 { // 1, 2, 4, 8, ...: a hook that is away must not fill the log
		// In another goroutine: the log may block, and mutexes are held.
		go q.log.Warn("an end could not be sent to the hook", "event", string(e.Event), "id", e.ID,
			"reason", why, "dropped", q.dropped)
	}
}

// deliverAll delivers ends until the queue is closed.
func (q *endQueue) deliverAll() {
	for e := range q.queue {
		err := q.deliver(&e)
		if err == nil {
			q.counts.count(e.Event, "sent")
			continue
		}
		q.mu.Lock()
		q.drop(&e, err)
		q.mu.Unlock()
	}
}

func (q *endQueue) deliver(e *Request) error {
	body, err := json.Marshal(e)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(q.closing, endPatience)
	defer cancel()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return try(ctx, func() error {
		once, done := context.WithTimeout(ctx, q.timeout)
		defer done()
		status, _, err := q.poster.post(once, body)
		if err == nil && (status < 200 || status > 299) {
			err = &failure{fmt.Errorf("it answers %d", status), status >= 500}
		}
		if err == nil {
			q.delivered.Add(1)
		} else {
			q.undelivered.Add(1)
		}
		return err
	})
}

// close delivers the waiting ends until ctx ends, or a little longer, or until the hook fails and
// accepts none for a while. Then it calls giveUp, which cancels requests under way.
func (q *endQueue) close(ctx context.Context, giveUp context.CancelFunc) {
	q.mu.Lock()
	q.closed = true
	close(q.queue)
	q.mu.Unlock()
	delivered := make(chan struct{})
	go func() {
		q.workers.Wait()
		close(delivered)
	}()
	grace := time.NewTimer(endGrace)
	defer grace.Stop()
	q.await(ctx, delivered)
	if ctx.Err() != nil {
		select {
		case <-delivered:
		case <-grace.C:
		}
	}
	giveUp()
	<-delivered
}

// await waits until all ends are delivered, ctx ends, or the hook has got none within endCheck and
// an attempt has failed.
func (q *endQueue) await(ctx context.Context, delivered <-chan struct{}) {
	check := time.NewTicker(endCheck)
	defer check.Stop()
	sent, failed := q.delivered.Load(), q.undelivered.Load()
	for {
		select {
		case <-delivered:
			return
		case <-ctx.Done():
			return
		case <-check.C:
		}
		now := q.delivered.Load()
		if now == sent && q.undelivered.Load() > failed {
			return
		}
		if now != sent {
			sent, failed = now, q.undelivered.Load()
		}
	}
}

// waiting returns how many ends wait, and how many were dropped.
func (q *endQueue) waiting() (ends int, dropped int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.queue), q.dropped
}
