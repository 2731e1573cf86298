package soak

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/millrace-io/millrace/internal/sleep"
)

// A cycle is a few seconds of work with one server.
type cycle struct {
	*target
	number  int
	working context.Context // when it ends, clients start no new work
	hard    context.Context // when it ends, clients abort their work

	lost atomic.Int64 // tags that the server skipped for viewers that were behind
	cut  atomic.Int64 // viewers that were disconnected
}

func newCycle(t *target, number int) *cycle { return &cycle{target: t, number: number} }

// run returns when the cycle is over and all clients have disconnected. If restart is not 0, run
// restarts the server with this signal in the middle of the cycle. The error is a fault of the
// cycle. For faults of single clients, see runClient.
func (c *cycle) run(ctx context.Context, restart syscall.Signal) error {
	var stop, giveUp context.CancelFunc
	c.working, stop = context.WithCancel(ctx)
	defer stop()
	c.hard, giveUp = context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()

	var all sync.WaitGroup
	client := func(number int, what string, f func(url string, up context.Context,
		r *rand.Rand) error) {
		r := rand.New(rand.NewPCG(c.cfg.Seed^contentOf(c.name+what),
			uint64(c.number)<<8|uint64(number)))
		all.Go(func() { c.runClient(what, r, f) })
	}
	client(0, "streams", c.runStreams)
	for i := range 3 {
		client(i, "files", c.file)
		client(i, "blobs", c.useBlob)
	}
	client(0, "expiring blobs", c.expire)

	var err error
	if restart == 0 {
		sleep.For(ctx, c.cfg.Cycle)
	} else {
		sleep.For(ctx, c.cfg.Cycle/2)
		if err = c.restart(context.WithoutCancel(ctx), restart); err == nil {
			err = c.inspect()
			sleep.For(ctx, c.cfg.Cycle/2)
		}
	}
	stop()
	late := time.AfterFunc(timeout, giveUp)
	defer late.Stop()
	all.Wait()
	if err == nil {
		err = c.inspect()
	}
	c.hangUp()
	c.done.add(tagsLost, c.lost.Load())
	c.done.add(cutOff, c.cut.Load())
	return err
}

// runClient calls f repeatedly until the cycle is over. The arguments of f include the address of
// the server, and a context that ends when the server is being restarted.
//
// If f returns an error, runClient records a fault. During a restart, requests may fail, so only a
// wrongError is a fault.
func (c *cycle) runClient(what string, r *rand.Rand,
	f func(url string, up context.Context, r *rand.Rand) error) {
	for c.working.Err() == nil {
		url, up, err := c.await(c.working)
		if err != nil {
			return
		}
		err = f(url, up, r)
		var bad *wrongError
		switch {
		case err == nil:
			continue
		case up.Err() != nil && !errors.As(err, &bad):
			c.done.add(interrupted, 1)
		case c.hard.Err() != nil:
			c.faults.add("server %s, cycle %d: %s: not over %v after the cycle: %v", c.name,
				c.number, what, timeout, err)
		default:
			c.faults.add("server %s, cycle %d: %s: %v", c.name, c.number, what, err)
		}
		sleep.For(c.working, pollEvery)
	}
}

// checkLosses returns an error if viewers noticed more losses than the server has counted in this
// cycle. Lost tags and lost connections are compared separately. The server may count a loss that
// no viewer notices, because a viewer can disconnect before the next tag arrives.
func (c *cycle) checkLosses() error {
	var before point // zero if the process was started in this cycle
	if n := len(c.points); n > 1 {
		before = c.points[n-2]
	}
	now := c.points[len(c.points)-1]
	if n, says := c.lost.Load(), now.lost-before.lost; n > says {
		return wrong("viewers missed %d tags, and the server says that it moved them past %d", n,
			says)
	}
	if n, says := c.cut.Load(), now.dropped-before.dropped; n > says {
		return wrong("%d viewers were disconnected, and the server says %d", n, says)
	}
	return nil
}
