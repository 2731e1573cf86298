package hook

import (
	"cmp"
	"context"
	"sync/atomic"
	"time"
)

const (
	// maxPlays bounds the table of plays. One takes about 700 bytes: 22 MiB.
	maxPlays = 32 << 10
	// maxRefused is how many there may be for a refusal to be kept: clients that invent tokens must leave room for others.
	maxRefused = maxPlays / 4
	// hlsIdle is how long a player of HLS may ask for nothing: longer than the longest segment lasts.
	hlsIdle = 20 * time.Second
	// failedKeep is how long a failure counts for players that show the same, and an answer that a failure leaves in force.
	failedKeep = time.Second
	// sweepEvery is how often plays are looked for that have ended.
	sweepEvery = time.Second
)

// A Play is an answer of the hook for players that show the same.
//
// Over a connection it lasts until the last of its players has ended; players that come when the answer is too old get
// another Play. Of HLS it is one from the first request on, with one ID: when the answer is too old, the next request asks
// again.
type Play struct {
	c   *Client
	key playKey
	q   Request // that began it, without what the client has shown

	served atomic.Int64 // bytes

	// Guarded by c.mu.
	ready   chan struct{} // closed when the answer is there; another one when it is asked for again
	asking  bool
	answer  Answer
	err     error
	allowed bool
	stale   bool      // the hook has failed since the answer, which counts all the same: no request waits for the next one
	until   time.Time // the answer counts
	over    time.Time // the time that the hook allows, if it is not zero
	players int       // with connections, those that wait included
	waiters int       // callers that wait for the first answer; when the last one has left, forget ends the question
	forget  context.CancelFunc
	asked   time.Time // of HLS: the latest request
	ended   bool
}

// Answer returns what the hook allows.
func (p *Play) Answer() Answer {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	return p.answer
}

// Served notes bytes that a player has got.
func (p *Play) Served(n int) { p.served.Add(int64(n)) }

// End notes that a player with a connection has ended, after so many bytes beside those of Served. The hook is told of the
// last one.
func (p *Play) End(reason string, bytes int64) {
	p.served.Add(bytes)
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	p.c.leave(p, reason)
}

// leave is End with c.mu held.
func (c *Client) leave(p *Play, reason string) {
	if p.players--; p.players == 0 && !p.asking && p.allowed {
		c.endPlay(p, reason)
	}
}

// endPlay removes p, and tells the hook of its end if it was allowed. c.mu is held.
func (c *Client) endPlay(p *Play, reason string) {
	if c.plays[p.key] == p {
		delete(c.plays, p.key)
	}
	if p.allowed && !p.ended {
		p.ended = true
		c.queueEnd(p.q.ended(reason, p.served.Load()))
	}
}

// Play asks the hook whether the client of q may play, unless an answer counts that is there or on its way. With a
// connection, the caller calls End when its player has ended. Errors are those of Ask.
func (c *Client) Play(ctx context.Context, q *Request) (*Play, error) {
	key := q.key()
	if err := q.prepare(c.cfg.Node); err != nil {
		c.count(q.Event, "refused")
		return nil, err
	}
	hls := q.Protocol == HLS
	c.mu.Lock()
	p, now := c.plays[key], time.Now()
	if p != nil && !p.over.IsZero() && !now.Before(p.over) {
		if hls {
			c.endPlay(p, "time is up")
		}
		p = nil
	}
	switch {
	case p != nil && (p.asking || now.Before(p.until)):
		c.hits.Add(1)
	case p != nil && hls && p.allowed && !c.closed:
		q.ID = p.q.ID
		p.asking, p.ready = true, make(chan struct{})
		c.deciding.Add(1)
		go c.decide(c.ends, p, *q)
	default:
		if len(c.plays) >= maxPlays || c.closed {
			c.mu.Unlock()
			c.count(q.Event, "busy")
			return nil, errBusy
		}
		p = &Play{c: c, key: key, q: *q, asking: true, ready: make(chan struct{}), asked: now}
		p.q.Forget()
		c.plays[key] = p
		var wanted context.Context
		wanted, p.forget = context.WithCancel(c.ends)
		c.deciding.Add(1)
		go c.decide(wanted, p, *q)
	}
	p.asked = now
	ready, stale := p.ready, p.stale
	if !hls {
		p.players++
	}
	p.waiters++
	c.mu.Unlock()

	err := ctx.Err()
	if err == nil && !stale {
		select {
		case <-ready:
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.waiters--; p.waiters == 0 && p.asking && !p.allowed {
		if c.plays[p.key] == p { // who comes next asks anew
			delete(c.plays, p.key)
		}
		p.forget()
	}
	if err == nil {
		err = p.err
	}
	if err != nil {
		if !hls {
			c.leave(p, "the client has gone")
		}
		return nil, err
	}
	return p, nil
}

// decide asks for the answer of p, for all who wait for it. The question is dropped if wanted ends before its turn comes.
func (c *Client) decide(wanted context.Context, p *Play, q Request) {
	defer c.deciding.Done()
	defer p.forget()
	a, err := c.ask(c.ends, wanted, &q)
	c.mu.Lock()
	defer c.mu.Unlock()
	defer close(p.ready)
	now, refused := time.Now(), isRefusal(err)
	p.asking = false
	p.stale = p.allowed && err != nil && !refused
	if p.stale { // what plays goes on without the hook
		p.until = now.Add(failedKeep)
		return
	}
	if c.cfg.Open && err == errFails {
		a, err = Answer{Keep: failedKeep}, nil
	}
	if err == nil {
		p.q.Name = cmp.Or(a.Name, p.q.Stream)
		if p.answer = a; !p.allowed && a.MaxTime > 0 {
			p.over = now.Add(a.MaxTime)
		}
		p.allowed, p.until = true, now.Add(a.Keep)
		if gone := c.plays[p.key] != p; gone && p.waiters == 0 || p.q.Protocol != HLS && p.players == 0 { // all have gone
			c.endPlay(p, "the client has gone")
		}
		return
	}
	current := c.plays[p.key] == p // and not one that began when the time of p was up
	c.endPlay(p, "refused: "+err.Error())
	p.allowed, p.err, p.until = false, err, now.Add(failedKeep)
	if refused {
		p.until = now.Add(a.Keep)
	}
	if current && len(c.plays) < maxRefused && !c.closed {
		c.plays[p.key] = p
	}
}

// sweepAll ends plays of HLS whose players ask no more, and forgets refusals, until c is closed.
func (c *Client) sweepAll() {
	defer close(c.swept)
	t := time.NewTicker(sweepEvery)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			c.sweep(time.Now())
		case <-c.ends.Done():
			return
		}
	}
}

func (c *Client) sweep(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, p := range c.plays {
		switch {
		case p.asking:
		case !p.allowed:
			if !now.Before(p.until) {
				delete(c.plays, key)
			}
		case p.q.Protocol != HLS:
		case !p.over.IsZero() && !now.Before(p.over):
			c.endPlay(p, "time is up")
		case now.Sub(p.asked) >= hlsIdle && !now.Before(p.until):
			c.endPlay(p, "it asks no more")
		}
	}
}
