package hook

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

const (
	// maxEnds bounds the ends that wait for delivery: all viewers of a server may end at once. Each takes about 500 bytes.
	maxEnds = 8192
	// endWorkers is how many are delivered at a time. There is one end for each ID, so that their order does not matter.
	endWorkers = 2
	// endPatience is how long an end is tried: as long as a hook takes to start again.
	endPatience = 30 * time.Second
	// endGrace is what is left for ends if the time of Close is over.
	endGrace = time.Second
	// endCheck is how long Close waits for the next end to be delivered by a hook that fails.
	endCheck = time.Second
)

// End tells the hook, later, that what q has begun has ended. It never waits.
func (c *Client) End(q *Request, reason string, bytes int64) {
	e := q.ended(reason, bytes)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queueEnd(e)
}

// queueEnd queues an end. c.mu is held.
func (c *Client) queueEnd(e Request) {
	if !c.closed {
		select {
		case c.queue <- e:
			return
		default:
		}
	}
	c.drop(&e, fmt.Errorf("%d ends wait", len(c.queue)))
}

// drop counts an end that the hook does not get, and logs some of them. c.mu is held.
func (c *Client) drop(e *Request, why error) {
	c.dropped++
	c.counts[Outcome{e.Event, "dropped"}]++
	if c.dropped&(c.dropped-1) == 0 { // 1, 2, 4, 8, ...: a hook that is away must not fill the log
		// In another goroutine: the log may block.
		go c.log.Warn("the hook was not told of an end", "event", string(e.Event), "id", e.ID, "reason", why, "dropped", c.dropped)
	}
}

// deliverAll delivers ends until the queue is closed.
func (c *Client) deliverAll() {
	for e := range c.queue {
		err := c.deliver(&e)
		c.mu.Lock()
		if err != nil {
			c.drop(&e, err)
		} else {
			c.counts[Outcome{e.Event, "sent"}]++
		}
		c.mu.Unlock()
	}
}

func (c *Client) deliver(e *Request) error {
	body, err := json.Marshal(e)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.ends, endPatience)
	defer cancel()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return c.try(ctx, func() error {
		once, done := context.WithTimeout(ctx, c.cfg.Timeout)
		defer done()
		status, _, err := c.post(once, body)
		if err == nil && (status < 200 || status > 299) {
			err = &failure{fmt.Errorf("it answers %d", status), status >= 500}
		}
		if err == nil {
			c.delivered.Add(1)
		} else {
			c.undelivered.Add(1)
		}
		return err
	})
}

// Close ends the plays that are left, and delivers the ends that wait until ctx ends, or a little
// longer, or until the hook fails and gets none for a while. Ask and Play must not be called any more.
func (c *Client) Close(ctx context.Context) {
	if c == nil {
		return
	}
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return
	}
	for _, p := range c.plays {
		c.endPlay(p, "the server is shutting down")
	}
	c.closed = true
	close(c.queue)
	c.mu.Unlock()
	delivered := make(chan struct{})
	go func() {
		c.workers.Wait()
		close(delivered)
	}()
	grace := time.NewTimer(endGrace)
	defer grace.Stop()
	c.awaitEnds(ctx, delivered)
	if ctx.Err() != nil {
		select {
		case <-delivered:
		case <-grace.C:
		}
	}
	c.stop()
	<-delivered
	c.deciding.Wait()
	<-c.swept
	c.http.CloseIdleConnections()
}

// awaitEnds waits until all ends are delivered, ctx ends, or the hook has got none within endCheck and
// an attempt has failed.
func (c *Client) awaitEnds(ctx context.Context, delivered <-chan struct{}) {
	check := time.NewTicker(endCheck)
	defer check.Stop()
	sent, failed := c.delivered.Load(), c.undelivered.Load()
	for {
		select {
		case <-delivered:
			return
		case <-ctx.Done():
			return
		case <-check.C:
		}
		now := c.delivered.Load()
		if now == sent && c.undelivered.Load() > failed {
			return
		}
		if now != sent {
			sent, failed = now, c.undelivered.Load()
		}
	}
}
