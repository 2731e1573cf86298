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
	// maxEnds limits the number of end events that wait for delivery. It is large because all
	// viewers of a server may leave at once. Each event takes about 500 bytes.
	maxEnds = 8192
	// endWorkers is the number of end events that are delivered concurrently. Each ID ends once, so
	// the order of the events does not matter.
	endWorkers = 2
	// endPatience is how long the delivery of an end event is retried. It is long enough for the
	// hook to restart.
	endPatience = 30 * time.Second
	// endGrace is how long end events are still delivered after the context of Close has ended.
	endGrace = time.Second
	// endCheck is how long Close waits for a failing hook to accept another end event.
	endCheck = time.Second
)

// An endQueue delivers end events to the hook. Its methods may be called from any goroutine.
type endQueue struct {
	poster  *poster
	counts  *counter
	log     *slog.Logger
	timeout time.Duration   // time limit for one attempt
	closing context.Context // ends when Client.Close gives up

	queue   chan Request
	workers sync.WaitGroup

	delivered, undelivered atomic.Int64 // numbers of events, not of attempts

	mu      lock.Mutex
	closed  bool
	dropped int64
}

// start starts the workers.
func (q *endQueue) start() {
	for range endWorkers {
		q.workers.Go(q.deliverAll)
	}
}

// add queues an end event. It never blocks.
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

// drop counts an end event that cannot be delivered. It logs some of these events. The caller holds
// q.mu.
func (q *endQueue) drop(e *Request, why error) {
	q.dropped++
	q.counts.count(e.Event, "dropped")
	// Log the 1st, 2nd, 4th, 8th, ..., so that an outage of the hook does not fill the log.
	if q.dropped&(q.dropped-1) == 0 {
		// The log is written in another goroutine, because it may block, and the caller holds
		// mutexes.
		go q.log.Warn("an end could not be sent to the hook", "event", string(e.Event), "id", e.ID,
			"reason", why, "dropped", q.dropped)
	}
}

// deliverAll delivers end events until the queue is closed.
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

// close delivers the queued end events until a little after ctx has ended, or until the hook fails
// and accepts no event for a while. Then it calls giveUp, which cancels the requests in progress.
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

// await returns when all end events are delivered or ctx has ended. It also returns if an attempt
// has failed and the hook has accepted no event within endCheck.
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

// waiting returns the number of queued end events and the number of dropped ones.
func (q *endQueue) waiting() (ends int, dropped int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.queue), q.dropped
}
