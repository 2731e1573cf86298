package cluster

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace/server/internal/outage"
)

// attempts is how many times the renewal of a lease is begun while the lease lasts.
const attempts = 3

// attemptTime returns the limit for a call of the directory. The worst case is as follows. One
// attempt is made just before the directory stops answering, and two more attempts fail. One of
// these two is made between two rounds of renewal. The second of them has failed after 10/12 of a
// lease.
func attemptTime(leaseTime time.Duration) time.Duration { return leaseTime / 4 }

// maxAsking limits the concurrent claims and lookups. It is lower than the number of connections to
// Redis. Renewals therefore need not wait for a connection, and the time limit of a call is not
// used up by such a wait.
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

// ask calls the directory, and limits the number of concurrent calls. If it returns errBusy, the
// directory was not called, so nothing is known about its health.
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

// answered records whether the directory has answered. err is the result of the call. answered
// returns true if the directory has answered.
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
