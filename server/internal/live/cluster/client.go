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

// attemptTime returns the time limit for one call of the directory. A lease outlasts two failed
// calls.
//
// For example, if a lease lasts 12 s, a call may take 3 s, and renewals are due every 4 s. In the
// worst case, the directory fails just after a renewal at 0 s, and another call begins just before
// 4 s. It fails at 7 s. The renewal that waited for it fails at 10 s. The next renewal begins
// before the lease ends.
func attemptTime(leaseTime time.Duration) time.Duration { return leaseTime / 4 }

// maxAsking limits how many claims and lookups run at a time. It is lower than the number of
// connections to Redis, so that a renewal never waits for a connection. The wait would count toward
// its time limit.
const maxAsking = 8

var errBusy = errors.New("too many questions to the cluster's directory at a time")

// A directoryClient calls the Directory for one node, and records whether it answers. Its methods
// may be called from any goroutine.
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

// Reachable reports whether the cluster's directory answered the last call.
func (c *directoryClient) Reachable() bool { return c.reachable.Load() }

func (c *directoryClient) call(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, attemptTime(c.leaseTime))
}

// ask runs f, which calls the directory. At most maxAsking calls run at a time. After errBusy, f
// has not run, and nothing is known about the health of the directory.
func (c *directoryClient) ask(f func(ctx context.Context) error) error {
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
	return f(ctx)
}

// answered records the result of a call, and logs changes. It returns false if err means that the
// directory could not be reached.
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
