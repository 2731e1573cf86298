package hook

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace/server/internal/outage"
	"github.com/millrace-io/millrace/server/internal/refuse"
)

const (
	// maxRequests is the maximum number of concurrent requests to the hook, and of their
	// connections. A hook that answers within 10 ms can answer 1600 requests a second.
	maxRequests = 16
	// maxWaiting is the maximum number of callers that wait to send a request to the hook. It is
	// limited because each caller holds a client's connection. If the hook answers each request
	// within 10 ms, it answers all waiting callers within a second.
	maxWaiting = 1024

	// Some of the maxRequests requests, and some of the maxWaiting places in the queue, are
	// reserved for publishers and recordings. Players cannot use them.
	reservedRequests = 4
	reservedWaiting  = 128
)

var (
	// errBusy is the error for a client if the queue of requests to the hook is full, and for a
	// player if the playTable is full or closed.
	errBusy = refuse.New(http.StatusServiceUnavailable,
		"too many clients wait for the hook of this server, or play with its permission").
		For(refuse.Limit).After(time.Second)
	// errFails is the error for a client if the hook fails. The reason appears only in the log.
	errFails = refuse.New(http.StatusServiceUnavailable,
		"the hook that this server asks does not answer").For(refuse.HookFailed).After(time.Second)
)

// An asker sends requests to the hook, and limits the number of concurrent requests. Its methods
// may be called from any goroutine.
type asker struct {
	poster  *poster
	counts  *counter
	log     *slog.Logger
	timeout time.Duration   // time limit for an answer, including retries and the time in the queue
	open    bool            // only for the log; see Config.Open
	closing context.Context // ends when Client.Close gives up

	slots     chan struct{}
	playSlots chan struct{} // a request about a player needs a slot in both slots and playSlots
	outage    outage.Outage
	waiting   atomic.Int64
}

// ask sends a request to the hook and returns the answer. It may first wait in a queue. The caller
// must have called Request.prepare on the request. ask returns these errors:
//   - If the hook refuses the client, a [refuse.Refusal].
//   - If the queue is full, errBusy.
//   - If the hook fails, errFails, even if Config.Open is set.
//   - If ctx ends, ctx.Err().
//   - If queueCtx ends while the request is in the queue, queueCtx.Err().
func (k *asker) ask(ctx, queueCtx context.Context, q *Request) (Answer, error) {
	a, err := k.askInTime(ctx, queueCtx, q)
	switch failed, ok := errors.AsType[*failure](err); {
	case ok:
		k.counts.count(q.Event, "failed")
		k.noteFailure(failed)
		err = errFails
	case err == nil:
		k.counts.count(q.Event, "allowed")
		k.noteFailure(nil)
	case isRefusal(err):
		k.counts.count(q.Event, "refused")
		k.noteFailure(nil)
	case err == errBusy:
		k.counts.count(q.Event, "busy")
	}
	return a, err
}

func isRefusal(err error) bool { return refuse.CauseOf(err) == refuse.Hook }

// noteFailure logs a failure of the hook if its reason is new. If err is nil, noteFailure logs that
// the hook answers again after a failure.
func (k *asker) noteFailure(err *failure) {
	if err == nil {
		if k.outage.Note(nil) {
			k.log.Info("the hook answers again")
		}
	} else if k.outage.Note(err.Err) {
		k.log.Warn("the hook fails", "reason", err.Err, "allows", k.open)
	}
}

func (k *asker) askInTime(parent, queueCtx context.Context, q *Request) (a Answer, err error) {
	body, err := json.Marshal(q)
	if err != nil {
		return a, &failure{Err: err}
	}
	most, slots := int64(maxRequests+maxWaiting), []chan struct{}{k.slots}
	if q.Event == PlayBegin {
		most, slots = most-reservedWaiting, []chan struct{}{k.playSlots, k.slots}
	}
	if k.waiting.Add(1) > most {
		k.waiting.Add(-1)
		return a, errBusy
	}
	defer k.waiting.Add(-1)
	ctx, cancel := context.WithTimeout(parent, k.timeout)
	defer cancel()
	defer context.AfterFunc(k.closing, cancel)()
	for _, slot := range slots {
		select {
		case slot <- struct{}{}:
			defer func() { <-slot }()
		case <-queueCtx.Done():
			return a, queueCtx.Err()
		case <-ctx.Done():
			return a, cmp.Or(parent.Err(), error(&failure{Err: fmt.Errorf(
				"it has not answered %d other requests within %v (--hook-timeout)", maxRequests,
				k.timeout)}))
		}
	}
	err = retry(ctx, func() error {
		status, text, err := k.poster.post(ctx, body)
		if err == nil {
			a, err = parseAnswer(q.Event, status, text)
			if err != nil && !isRefusal(err) {
				err = &failure{err, status >= 500}
			}
		}
		return err
	})
	if err != nil && parent.Err() != nil {
		err = parent.Err()
	}
	return a, err
}
