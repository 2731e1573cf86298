package cluster

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace/server/internal/outage"
)

// attempts is how many times this node tries to renew a lease while the lease lasts.
const attempts = 3

// attemptTime returns the time limit for a call of the directory. It is so short that a lease
// outlasts two failed attempts. In the worst case, the directory stops answering just after an
// attempt. The first failed attempt begins shortly before 4/12 of the lease, between two rounds of
// renewal, and ends after 7/12. It delays the attempt of the next round, which ends after 10/12.
func attemptTime(leaseTime time.Duration) time.Duration { return leaseTime / 4 }

// maxAsking limits the concurrent claims and lookups. It is lower than the number of connections to
// Redis, so that renewals need not wait for a connection. Such a wait would use up the time limit
// of a call.
const maxAsking = 8

// errBusy means that the directory was not called, because too many calls were in progress.
var errBusy = errors.New("too many questions to the cluster's directory at a time")

// A directoryClient calls the Directory for one node, and records whether the Directory answers.
// Its methods may be called from any goroutine.
type directoryClient struct {
	directory Directory
	leaseTime time.Duration
	log       *slog.Logger
	ctx       context.Context // the context of the node
	asking    chan struct{}   // holds an element for each call of ask in progress

	reachable atomic.Bool // the last call reached the directory
	asked     atomic.Bool // the directory was called before
	outage    outage.Outage
}

func newDirectoryClient(ctx context.Context, directory Directory, leaseTime time.Duration,
	log *slog.Logger) *directoryClient {
	return &directoryClient{directory: directory, leaseTime: leaseTime, log: log, ctx: ctx,
		asking: make(chan struct{}, maxAsking)}
}

// Reachable reports whether the directory answered the last call.
func (c *directoryClient) Reachable() bool { return c.reachable.Load() }

// call returns a context for one call of the directory, which has a time limit.
func (c *directoryClient) call(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, attemptTime(c.leaseTime))
}

// ask runs call with a context for one call of the directory, and limits how many calls run at a
// time. If ask returns errBusy, call was not run, so nothing is known about the health of the
// directory.
func (c *directoryClient) ask(call func(ctx context.Context) error) error {
	wait, cancel := c.call(c.ctx)
	defer cancel()
	select {
	case c.asking <- struct{}{}:
		defer func() { <-c.asking }()
	case <-wait.Done():
		return errBusy
	}
	ctx, cancel := c.call(c.ctx)
	defer cancel()
	return call(ctx)
}

// answered reports whether a call with the result err reached the directory. It also records that
// for Reachable, and logs changes.
func (c *directoryClient) answered(err error) bool {
	_, taken := errors.AsType[*TakenError](err)
	ok := err == nil || taken || errors.Is(err, ErrNoOwner) || errors.Is(err, ErrLost)
	if c.ctx.Err() != nil {
		return ok
	}
	first := !c.asked.Swap(true)
	c.reachable.Store(ok)
	if ok {
		err = nil
	}
	switch news := c.outage.Note(err); {
	case ok && (first || news):
		c.log.Info("the cluster's directory answers")
	case news:
		c.log.Warn("the cluster's directory does not answer", "err", err)
	}
	return ok
}
