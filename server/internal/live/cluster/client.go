package cluster

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace/server/internal/outage"
)

// attempts is the number of times that the renewal of a lease is begun within the time of a lease.
const attempts = 3

// attemptTime returns the limit for a call of the directory. In the worst case one attempt is made
// just before the directory stops answering, and two more attempts fail, one of which was made
// between two rounds of renewal. The second of them has failed after 10/12 of a lease.
func attemptTime(leaseTime time.Duration) time.Duration { return leaseTime / 4 }

// maxAsking limits the concurrent claims and lookups. The limit is lower than the number of
// connections to Redis. Renewals therefore need not wait for a connection, and the time of a call
// is spent in the directory.
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
	asked     atomic.Bool // there has been a call
	outage    outage.Outage
}

func newDirectoryClient(ctx context.Context, directory Directory, leaseTime time.Duration,
	log *slog.Logger) *directoryClient {
	return &directoryClient{directory: directory, leaseTime: leaseTime, log: log, ctx: ctx,
		asking: make(chan struct{}, maxAsking)}
}

// Reachable reports whether the directory answered the last call.
func (c *directoryClient) Reachable() bool { return c.reachable.Load() }

// call returns a context with the time limit of one call of the directory.
func (c *directoryClient) call(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, attemptTime(c.leaseTime))
}

// ask makes a call of the directory, with a limit on concurrent calls. The error errBusy says
// nothing about the directory's health.
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

// answered records whether the directory has answered a call that returned err. It reports whether
// it has.
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
