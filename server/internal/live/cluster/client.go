package cluster

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace/server/internal/outage"
)

// attempts is how many times in a lease its renewal begins.
const attempts = 3

// attemptTime bounds a call of the directory. In the worst case one attempt was made just before
// the directory stopped to answer, two fail, one of which was between the others, and the time
// until the second has failed is 10/12 of a lease.
func attemptTime(leaseTime time.Duration) time.Duration { return leaseTime / 4 }

// maxAsking bounds the claims and lookups under way. There are fewer than connections to Redis, so
// that renewals need not wait for one, and the time of a call is the directory's.
const maxAsking = 8

// errBusy says that the directory was not asked.
var errBusy = errors.New("too many questions to the cluster's directory at a time")

// A directoryClient calls the Directory for one node, and knows whether the Directory answers. Its
// methods are for any goroutine.
type directoryClient struct {
	directory Directory
	leaseTime time.Duration
	log       *slog.Logger
	ctx       context.Context // of the node
	asking    chan struct{}   // has an element for each call of ask that is under way

	reachable atomic.Bool // whether the last call reached the directory
	asked     atomic.Bool // there was a call
	outage    outage.Outage
}

func newDirectoryClient(ctx context.Context, directory Directory, leaseTime time.Duration,
	log *slog.Logger) *directoryClient {
	return &directoryClient{directory: directory, leaseTime: leaseTime, log: log, ctx: ctx,
		asking: make(chan struct{}, maxAsking)}
}

// Reachable reports whether the last call was answered.
func (c *directoryClient) Reachable() bool { return c.reachable.Load() }

// call returns the context of one call of the directory.
func (c *directoryClient) call(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, attemptTime(c.leaseTime))
}

// ask makes a call of the directory, with a limit on concurrent calls. errTooManyCalls says nothing
// about the directory's health.
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

// answered takes the error of a call of the directory. It reports whether there was an answer.
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
