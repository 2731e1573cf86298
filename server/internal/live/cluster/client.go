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

// attemptTime returns the time limit for one call to the cluster's directory. The limit is short
// enough for a lease to outlast two failed calls.
//
// For example, if a lease lasts 12 s, a call may take 3 s, and renewals are due every 4 s. In the
// worst case, the directory fails just after a successful renewal at 0 s:
//   - A call between two renewals, for example to report a released lease, begins just before 4 s.
//     It fails at 7 s.
//   - The renewal that was due at 4 s waits for that call. It begins at 7 s, and fails at 10 s.
//   - The next renewal begins before the lease ends at 12 s.
func attemptTime(leaseTime time.Duration) time.Duration { return leaseTime / 4 }

// maxAsking limits how many claims of streams and lookups of owners run at a time. The limit is
// lower than the number of connections to Redis, so that a renewal of leases always finds a free
// connection. Time spent waiting for a connection would count toward the time limit of the renewal.
const maxAsking = 8

var errBusy = errors.New("too many questions to the cluster's directory at a time")

// A directoryClient calls the Directory for one node. Any goroutine may call its methods.
type directoryClient struct {
	directory Directory
	leaseTime time.Duration
	log       *slog.Logger
	ctx       context.Context // the context of the node
	asking    chan struct{}   // holds an element for each call to ask in progress

	reachable atomic.Bool  // the last call reached the directory
	answers   atomic.Int64 // when the directory began to answer; see clock
	asked     atomic.Bool  // the directory has been called
	outage    outage.Outage
}

func newDirectoryClient(ctx context.Context, directory Directory, leaseTime time.Duration,
	log *slog.Logger) *directoryClient {
	return &directoryClient{directory: directory, leaseTime: leaseTime, log: log, ctx: ctx,
		asking: make(chan struct{}, maxAsking)}
}

// Reachable reports whether the cluster's directory answered the last call.
func (c *directoryClient) Reachable() bool { return c.reachable.Load() }

func (c *directoryClient) setReachable(ok bool) {
	if !c.reachable.Swap(ok) {
		c.answers.Store(clock(time.Now()))
	}
}

// answeredFor returns for how long the cluster's directory has answered each call.
func (c *directoryClient) answeredFor() time.Duration {
	return time.Duration(clock(time.Now()) - c.answers.Load())
}

func (c *directoryClient) call(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, attemptTime(c.leaseTime))
}

// ask runs f, a function that calls the cluster's directory. At most maxAsking such functions run
// at a time. If ask returns errBusy, it has not run f, and nothing is known about the health of the
// directory.
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

// noteAnswer records whether the cluster's directory has answered a call, and logs when the
// directory stops answering or answers again. The parameter err is the error of the call.
// noteAnswer returns false if err means that the directory could not be reached.
func (c *directoryClient) noteAnswer(err error) bool {
	_, taken := errors.AsType[*TakenError](err)
	ok := err == nil || taken || errors.Is(err, ErrNoOwner) || errors.Is(err, ErrLost)
	if c.ctx.Err() != nil {
		return ok
	}
	first := !c.asked.Swap(true)
	c.setReachable(ok)
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
