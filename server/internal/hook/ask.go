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
	// maxRequests bounds the questions that are asked at a time, and so the connections. A hook
	// that answers within 10 ms gets 1600 a second.
	maxRequests = 16
	// maxWaiting bounds the callers that wait for their turn: each has a connection of a client. A
	// hook that answers within 10 ms has answered all of them in less than a second.
	maxWaiting = 1024

	// Questions about players leave this much of both to those about publishers and recordings,
	// which are few.
	reservedRequests = 4
	reservedWaiting  = 128
)

var (
	// errBusy refuses a client when so many wait for the hook, or play, that no more are asked
	// about.
	errBusy = refuse.New(http.StatusServiceUnavailable,
		"too many clients wait for the hook of this server, or play by its leave").For(
		refuse.Limit).After(time.Second)
	// errFails refuses a client because of a failure, which the log describes.
	errFails = refuse.New(http.StatusServiceUnavailable,
		"the hook that this server asks does not answer").For(refuse.HookFailed).After(time.Second)
)

// An asker asks the hook questions, so many at a time. Its methods are for any goroutine.
type asker struct {
	poster  *poster
	counts  *counter
	log     *slog.Logger
	timeout time.Duration   // for an answer, with all attempts and the time in the queue
	open    bool            // for the log alone: see Config.Open
	closing context.Context // ends with the last moment of Client.Close

	slots     chan struct{}
	playSlots chan struct{} // questions about players need one of these, too
	outage    outage.Outage
	waiting   atomic.Int64
}

// ask asks about a request that is complete, without regard to Config.Open. It drops the request if
// wanted ends before its turn comes.
func (k *asker) ask(ctx, wanted context.Context, q *Request) (Answer, error) {
	a, err := k.askInTime(ctx, wanted, q)
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

// isRefusal reports whether err is the hook's own refusal.
func isRefusal(err error) bool { return refuse.CauseOf(err) == refuse.Hook }

// noteFailure logs the reasons of the failures in a row, and the end of the row.
func (k *asker) noteFailure(err *failure) {
	if err == nil {
		if k.outage.Note(nil) {
			k.log.Info("the hook answers again")
		}
	} else if k.outage.Note(err.Err) {
		k.log.Warn("the hook fails", "reason", err.Err, "allows", k.open)
	}
}

func (k *asker) askInTime(parent, wanted context.Context, q *Request) (a Answer, err error) {
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
		case <-wanted.Done():
			return a, wanted.Err()
		case <-ctx.Done():
			return a, cmp.Or(parent.Err(), error(&failure{Err: fmt.Errorf(
				"it has not answered %d other requests within %v (--hook-timeout)", maxRequests,
				k.timeout)}))
		}
	}
	err = try(ctx, func() error {
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
