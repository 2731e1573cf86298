package redisbuf

import (
	"context"
	"errors"
	"net"
	"slices"

	"github.com/redis/go-redis/v9"
)

// A retry is a call of a pipeline that is to be executed again.
type retry struct {
	op     *call
	at     int   // its place among those that were sent together
	pause  bool  // the server is to be given some time before
	target *node // where the server says that the key is, or nil
	asking bool  // which needs an ASKING there
}

// repair executes again, one by one, the calls that have failed in a way that it may help, and stops when one of them
// finds no server. What else goes wrong with one is no reason to leave out the others.
func (g *group) repair(ctx context.Context, calls []*call) {
	var failed []retry
	try := attempt{commands: g.commands, ctx: ctx, node: g.node}
	for i, op := range calls {
		if op.err == nil {
			continue
		}
		try.purpose, try.err, try.final = op.purpose(), op.err, op.final
		try.target, try.asking = nil, false
		try.passOn()
		worth, pause := try.worth()
		if worth && try.prepare() {
			failed = append(failed, retry{op: op, at: i, pause: pause, target: try.target, asking: try.asking})
		}
		op.err = try.err
	}
	failed = notOvertaken(failed, calls)
	if slices.ContainsFunc(failed, func(r retry) bool { return r.pause }) && !try.backOff() {
		for _, r := range failed {
			r.op.err = ctx.Err()
		}
		return
	}
	for _, r := range failed {
		r.op.err = nil
		if g.doAt(ctx, r.op, r.target, r.asking); isUnreached(r.op.err) {
			return
		}
	}
}

// A lastRun is where the last calls of a key are that were executed, or may have been; -1 if there are none.
type lastRun struct{ read, write int }

// notOvertaken returns those of failed that can be executed behind all of calls, and uses its memory for that. The others
// keep the errors that they have: a SET would undo a later one, or make a later read wrong that has seen the value before
// it, and a read would see the value of a later SET.
func notOvertaken(failed []retry, calls []*call) []retry {
	if len(failed) == 0 {
		return nil // as a rule, and then it costs nothing
	}
	last := make(map[string]lastRun)
	for _, r := range failed {
		last[r.op.key] = lastRun{-1, -1}
	}
	for i, op := range calls {
		l, asked := last[op.key]
		if !asked || !mayHaveRun(op.err) {
			continue
		}
		if op.purpose() == writes {
			l.write = i
		} else {
			l.read = i
		}
		last[op.key] = l
	}
	kept := failed[:0]
	for _, r := range failed {
		l := last[r.op.key]
		if l.write < r.at && (l.read < r.at || r.op.purpose() == reads) {
			kept = append(kept, r)
		}
	}
	return kept
}

// mayHaveRun reports whether a call that has ended with err was executed, or may have been. A read without a reply is as
// good as none.
func mayHaveRun(err error) bool {
	var sent *SentError
	var reader *ReaderError
	switch {
	case err == nil, errors.As(err, &sent):
		return true
	case errors.As(err, &reader):
		return false
	case isServerError(err):
		_, _, redirected := elsewhere(err)
		return !redirected && !passes(err)
	}
	return !isLoss(err)
}

// isUnreached reports whether err, of a call with all of its tries, means that another call would have no server either,
// or no time.
func isUnreached(err error) bool {
	if err == nil || isServerError(err) {
		return false // before the variables below, which are on the heap
	}
	var reader *ReaderError
	var writer *WriterError
	if errors.As(err, &reader) || errors.As(err, &writer) {
		return false // whatever the caller's reader or writer has failed with, even if it is a context's error
	}
	for _, none := range []error{ErrClosed, redis.ErrPoolTimeout, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, none) {
			return true
		}
	}
	var sent *SentError
	if errors.As(err, &sent) || errors.Is(err, ErrConnLost) {
		// One connection was lost, at the first try, and maybe by another call. But who has waited in vain does so once.
		var netErr net.Error
		return errors.As(err, &netErr) && netErr.Timeout()
	}
	return isLoss(err)
}
