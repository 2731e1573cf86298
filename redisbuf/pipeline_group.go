package redisbuf

import (
	"context"
	"errors"
	"slices"

	"github.com/redis/go-redis/v9"
)

// A group holds the calls of a Pipeline to one server.
type group struct {
	client   *Client
	node     *node
	calls    []*Result
	retries  int
	panicked any // value of a panic of the user's Dialer or credentials provider
}

// run executes the calls in batches that keep to MaxInFlight. It retries the failed calls of a
// batch before the next batch. If the server cannot be reached, the remaining calls fail.
func (g *group) run(ctx context.Context) {
	for rest := g.calls; len(rest) > 0; {
		n, weight := g.nextBatch(rest)
		calls := rest[:n]
		rest = rest[n:]
		g.execute(ctx, calls, weight)
		g.retry(ctx, calls)
		for _, r := range calls {
			if !isUnreachable(r.err) {
				continue
			}
			err := r.err
			if isLoss(err) {
				err = errNotSent
			}
			for _, r := range rest {
				r.err = err
			}
			return
		}
	}
}

// nextBatch returns the number of calls that can be sent together, and their total weight. The
// weight stays within the MaxInFlight limit, unless the first call alone exceeds it.
func (g *group) nextBatch(calls []*Result) (n int, weight int64) {
	limit := g.client.settings.inFlight
	for i, r := range calls {
		more := g.client.weightOf(r.cmd)
		if i > 0 && weight+more > limit {
			return i, weight
		}
		weight += more
	}
	return len(calls), weight
}

// execute executes the calls on one connection. If it cannot get a connection, each call gets the
// error that explains why.
func (g *group) execute(ctx context.Context, calls []*Result, weight int64) {
	if err := g.runAll(ctx, calls, weight); err != nil {
		for _, r := range calls {
			r.err = err
		}
		return
	}
	for _, r := range calls {
		r.n = r.cmd.info().n
		if sent, ok := r.err.(*SentError); ok {
			sent.Err = g.node.closedError(sent.Err)
		} else {
			r.err = g.node.closedError(r.err)
		}
	}
}

func (g *group) runAll(ctx context.Context, calls []*Result, weight int64) error {
	counted, err := g.client.admit(ctx, weight)
	if err != nil {
		return err
	}
	defer g.client.inFlight.release(counted)
	c, err := g.client.acquire(ctx, g.node)
	if err != nil {
		return err
	}
	defer g.client.release(ctx, g.node, c)
	c.runAll(ctx, calls)
	return nil
}

var errNotSent = errors.New(
	"redisbuf: not sent, because a call before it in the pipeline has failed")

// runAll sends the calls and then reads the replies. If the connection is lost, each call that has
// no reply gets an error.
func (c *conn) runAll(ctx context.Context, calls []*Result) {
	err := c.begin(ctx)
	c.pipelined = true
	queued, read := 0, 0
	if err == nil {
		queued, err = c.sendAll(calls)
	}
	if err == nil {
		c.sent = true
		read, err = c.readAll(calls)
		failCalls(calls[read:], err, true)
	} else {
		sent := c.sentOf(calls[:queued])
		if closedByServer(err) { // an earlier reply may give the reason
			read, _ = c.readAll(calls[:sent])
		}
		failCalls(calls[read:sent], err, true)
		failCalls(calls[sent:], err, false)
		if read == sent && sent < len(calls) {
			calls[sent].err = c.pendingError(err)
		}
	}
	_ = c.finish(ctx, err)
}

// sendAll adds the calls to the queue and sends the queue. After an error, queued is the number of
// completely queued calls, and some of these calls may have been sent.
func (c *conn) sendAll(calls []*Result) (queued int, err error) {
	for i, r := range calls {
		if err := r.cmd.compose(c); err != nil {
			return i, err
		}
		r.end = c.queued
	}
	return len(calls), c.flush()
}

// sentOf returns the number of completely sent calls. sendAll must have queued all calls
// completely.
func (c *conn) sentOf(calls []*Result) int {
	n := len(calls)
	for n > 0 && calls[n-1].end > c.written {
		n--
	}
	return n
}

// readAll reads the replies to the calls, and returns the number of calls that have a reply. If a
// call has no reply, err is the reason.
func (c *conn) readAll(calls []*Result) (read int, err error) {
	for i, r := range calls {
		if r.err = r.cmd.read(c); r.err != nil && (c.broken || !c.usableAfter(r.err)) {
			return i, r.err
		}
	}
	return len(calls), nil
}

// failCalls assigns an error to each call that has no reply.
//
//   - The first call gets err.
//   - The other calls usually get err, too. If err is about the reply to the first call
//     (*ProtocolError, *BufferTooSmallError or *ValueTooLargeError), the other calls get
//     ErrConnLost instead.
//   - If the parameter sent is true, the server may have executed the calls. In this case, each
//     call that writes gets a *SentError that wraps the call's error.
func failCalls(calls []*Result, err error, sent bool) {
	for i, r := range calls {
		r.err = err
		if sent && r.cmd.info().writes {
			r.err = &SentError{Err: err}
		}
		if i > 0 {
			continue
		}
		switch err.(type) {
		case *ProtocolError, *BufferTooSmallError, *ValueTooLargeError:
			err = ErrConnLost // for the other calls, err means only that the connection was lost
		}
	}
}

// retry executes the failed calls again, one by one, if a retry is safe. It stops when the server
// cannot be reached.
func (g *group) retry(ctx context.Context, calls []*Result) {
	if !slices.ContainsFunc(calls, func(r *Result) bool { return r.err != nil }) {
		return
	}
	failed, pause := g.retryable(ctx, calls)
	if pause {
		if err := failed[0].call.pause(); err != nil {
			for _, f := range failed {
				f.result.err = err
			}
			return
		}
	}
	for _, f := range failed {
		r := f.result
		r.err = f.call.run(r.cmd)
		g.retries += f.call.tries
		r.n = r.cmd.info().n
		if isUnreachable(r.err) {
			return
		}
	}
}

type failedCall struct {
	result *Result
	call   call
}

// retryable returns the failed calls that may be retried, and whether to pause first. A retry may
// change the order of the calls. The result therefore omits a failed call in two cases:
//
//   - A later SET of the same key may have been executed. A retried SET would overwrite the later
//     value, and a retried read would return the later value.
//   - The call is a SET, and a later read of the same key may have been executed. The read has
//     returned the old value, so a retried SET would come too late.
func (g *group) retryable(ctx context.Context, calls []*Result) (failed []failedCall, pause bool) {
	// The loop goes through the calls from the last to the first. For each key, the map later
	// records whether a call after the current call may have been executed.
	later := make(map[string]struct{ read, written bool })
	for _, r := range slices.Backward(calls) {
		cmd := r.cmd.info()
		seen := later[cmd.key]
		if mayHaveRun(r.err) {
			seen.read, seen.written = seen.read || !cmd.writes, seen.written || cmd.writes
			later[cmd.key] = seen
		}
		if r.err == nil {
			continue
		}
		k := call{client: g.client, ctx: ctx, cmd: cmd, node: g.node}
		k.reload(r.err)
		yes, pauseFirst := k.retryable(r.err)
		if !yes || seen.written || seen.read && cmd.writes {
			continue
		}
		if err := k.prepareTry(r.err); err != nil {
			r.err = err
			continue
		}
		failed = append(failed, failedCall{r, k})
		pause = pause || pauseFirst
	}
	slices.Reverse(failed)
	return failed, pause
}

// mayHaveRun reports whether the server may have executed a command that ended with err. A read
// without a reply counts as not executed.
func mayHaveRun(err error) bool {
	switch {
	case err == nil, isA[*SentError](err):
		return true
	case isServerError(err):
		_, _, redirected := parseRedirection(err)
		return !redirected && !isTransient(err)
	}
	return !isLoss(err)
}

// isUnreachable reports whether err means that the server cannot be reached or that the time is up.
// The next call would then fail as well. err is the error of a call after all its retries.
func isUnreachable(err error) bool {
	if err == nil || isServerError(err) {
		return false
	}
	for _, end := range []error{ErrClosed, redis.ErrPoolTimeout, context.Canceled,
		context.DeadlineExceeded} {
		if errors.Is(err, end) {
			return true
		}
	}
	if isA[*SentError](err) || errors.Is(err, ErrConnLost) {
		// If the connection was lost, another connection to the same server may work. After a
		// timeout, another call would probably wait as long, so the server counts as unreachable.
		return isTimeout(err)
	}
	return isLoss(err)
}
