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
	// maxEnds is the maximum number of queued end events. It is large because all viewers may leave
	// at the same time. Each event takes about 500 bytes.
	maxEnds = 8192
	// endWorkers is the number of goroutines that deliver end events to the hook. They may deliver
	// the events in any order, because each publisher, player or recording has only one end event.
	endWorkers = 2
	// endPatience is the time limit for all attempts to deliver an end event. It is long enough for
	// the hook to restart.
	endPatience = 30 * time.Second
	// endGrace is the minimum time for deliveries in Close, even after its context has ended.
	endGrace = time.Second
	// endCheck is the interval at which Close checks whether end events are still delivered to the
	// hook. If an attempt has failed since the previous check and no attempt has succeeded, Close
	// gives up.
	endCheck = time.Second
)

// An endQueue delivers end events to the hook. An end event reports that publishing, playing or
// recording a stream has ended. The methods of an endQueue may be called from any goroutine.
type endQueue struct {
	poster  *poster
	counts  *counter
	log     *slog.Logger
	timeout time.Duration   // time limit for one attempt
	closing context.Context // ends when Client.Close gives up

	queue   chan Request
	workers sync.WaitGroup

	delivered, undelivered atomic.Int64 // numbers of successful and failed attempts

	mu      lock.Mutex
	closed  bool
	dropped int64
}

func (q *endQueue) start() {
	for range endWorkers {
		q.workers.Go(q.deliverAll)
	}
}

// add queues the end event e, or drops it if the queue is full or closed. It never blocks.
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

// drop counts an end event that was not delivered, and may log it. The caller must hold q.mu.
func (q *endQueue) drop(e *Request, why error) {
	q.dropped++
	q.counts.count(e.Event, "dropped")
	// Log only dropped events number 1, 2, 4, 8 and so on, so that a failing hook does not fill the
	// log.
	if q.dropped&(q.dropped-1) == 0 {
		// A separate goroutine writes the log, because the log may block while the caller holds
		// mutexes.
		go q.log.Warn("an end could not be sent to the hook", "event", string(e.Event), "id", e.ID,
			"reason", why, "dropped", q.dropped)
	}
}

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
	return retry(ctx, func() error {
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

// close closes the queue, and waits until the queued end events are delivered to the hook. It stops
// waiting earlier in two cases:
//   - ctx has ended, and close has waited for at least endGrace.
//   - No end event can be delivered (see endCheck).
//
// Finally, close calls giveUp, which cancels the requests in progress, and waits until the workers
// have ended.
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

// await returns when the channel delivered is closed, when ctx has ended, or when no end event can
// be delivered (see endCheck).
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

func (q *endQueue) waiting() (ends int, dropped int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.queue), q.dropped
}
