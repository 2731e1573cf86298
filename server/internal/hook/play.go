package hook

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace/server/internal/lock"
)

const (
	// maxPlays limits the number of plays in the table. Each play takes about 700 bytes, so a full
	// table takes 22 MiB.
	maxPlays = 32 << 10
	// If the table holds maxRefused plays or more, refusals are not kept, because clients that
	// invent tokens must not fill the table.
	maxRefused = maxPlays / 4
	// hlsIdle is how long an HLS player may send no requests before its play ends. It is longer
	// than the longest segment.
	hlsIdle = 20 * time.Second
	// failedKeep is how long the failure of a request also counts for further players with the same
	// playKey. If an expired answer cannot be renewed, failedKeep is how much longer the answer is
	// used.
	failedKeep = time.Second
	// sweepEvery is the interval at which the table is searched for plays that have ended.
	sweepEvery = time.Second
)

// A Play is an answer of the hook for all players with the same playKey.
//
// For players with connections: the Play lasts until the last of them has left. A player that comes
// after the answer has expired gets another Play. For HLS players: they keep the same Play and ID
// as long as they send requests. If the answer has expired, the next request makes the Play ask the
// hook again.
type Play struct {
	t   *playTable
	key playKey
	q   Request // the first player's request, without the credentials

	served atomic.Int64 // bytes sent to players

	// The fields from here on are guarded by t.mu. ready is closed when the answer has arrived, and
	// replaced when the hook is asked again.
	ready   chan struct{}
	asking  bool
	answer  Answer
	err     error
	allowed bool
	// stale is set if the hook has failed to renew the answer. The answer then stays in use, and
	// requests do not wait for the next attempt.
	stale   bool
	until   time.Time // time at which the answer expires
	over    time.Time // time at which the hook's time limit is reached; zero means no limit
	players int       // players with connections, including those that wait for the answer
	// waiters is the number of callers that wait for the first answer. When the last one leaves,
	// forget cancels the question.
	waiters int
	forget  context.CancelFunc
	asked   time.Time // time of the latest request of an HLS player
	ended   bool
}

// A playTable holds the current plays, and the refusals that are still valid. Its methods may be
// called from any goroutine.
type playTable struct {
	asker   *asker
	ends    *endQueue
	counts  *counter
	open    bool            // see Config.Open
	closing context.Context // ends when Client.Close gives up

	deciding sync.WaitGroup
	swept    chan struct{} // closed when the sweeper has returned
	hits     atomic.Int64

	mu     lock.Mutex // locked before the mutex of ends
	closed bool
	plays  map[playKey]*Play
}

// Answer returns the hook's answer.
func (p *Play) Answer() Answer {
	p.t.mu.Lock()
	defer p.t.mu.Unlock()
	return p.answer
}

// Served counts n bytes as sent to a player.
func (p *Play) Served(n int) { p.served.Add(int64(n)) }

// End records that a player with a connection has left. bytes is how many bytes were sent to the
// player in addition to those counted by Served. The hook gets an end event when the last player of
// p has left.
func (p *Play) End(reason string, bytes int64) {
	p.served.Add(bytes)
	p.t.mu.Lock()
	defer p.t.mu.Unlock()
	p.t.leave(p, reason)
}

// leave is End for callers that hold t.mu.
func (t *playTable) leave(p *Play, reason string) {
	if p.players--; p.players == 0 && !p.asking && p.allowed {
		t.endPlay(p, reason)
	}
}

// endPlay removes p from the table and, if p was allowed, reports its end to the hook. The caller
// holds t.mu.
func (t *playTable) endPlay(p *Play, reason string) {
	if t.plays[p.key] == p {
		delete(t.plays, p.key)
	}
	if p.allowed && !p.ended {
		p.ended = true
		t.ends.add(p.q.ended(reason, p.served.Load()))
	}
}

// play asks the hook whether the client of q may play. If there already is a valid answer or a
// question in progress, it does not ask again. The caller has prepared q.
func (t *playTable) play(ctx context.Context, q *Request) (*Play, error) {
	key := q.key()
	hls := q.Protocol == HLS
	t.mu.Lock()
	p, now := t.plays[key], time.Now()
	if p != nil && !p.over.IsZero() && !now.Before(p.over) {
		if hls {
			t.endPlay(p, "time is up")
		}
		p = nil
	}
	switch {
	case p != nil && (p.asking || now.Before(p.until)):
		t.hits.Add(1)
	case p != nil && hls && p.allowed && !t.closed:
		q.ID = p.q.ID
		p.asking, p.ready = true, make(chan struct{})
		t.deciding.Add(1)
		go t.decide(t.closing, p, *q)
	default:
		if len(t.plays) >= maxPlays || t.closed {
			t.mu.Unlock()
			t.counts.count(q.Event, "busy")
			return nil, errBusy
		}
		p = &Play{t: t, key: key, q: *q, asking: true, ready: make(chan struct{}), asked: now}
		p.q.Forget()
		t.plays[key] = p
		var wanted context.Context
		wanted, p.forget = context.WithCancel(t.closing)
		t.deciding.Add(1)
		go t.decide(wanted, p, *q)
	}
	p.asked = now
	ready, stale := p.ready, p.stale
	if !hls {
		p.players++
	}
	p.waiters++
	t.mu.Unlock()

	err := ctx.Err()
	if err == nil && !stale {
		select {
		case <-ready:
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if p.waiters--; p.waiters == 0 && p.asking && !p.allowed {
		if t.plays[p.key] == p { // the next caller starts a new play
			delete(t.plays, p.key)
		}
		p.forget()
	}
	if err == nil {
		err = p.err
	}
	if err != nil {
		if !hls {
			t.leave(p, "the client has gone")
		}
		return nil, err
	}
	return p, nil
}

// decide asks the hook and sets the answer of p for all callers that wait for it. It gives up if
// wanted ends before the question is sent.
func (t *playTable) decide(wanted context.Context, p *Play, q Request) {
	defer t.deciding.Done()
	defer p.forget()
	a, err := t.asker.ask(t.closing, wanted, &q)
	t.mu.Lock()
	defer t.mu.Unlock()
	defer close(p.ready)
	now, refused := time.Now(), isRefusal(err)
	p.asking = false
	p.stale = p.allowed && err != nil && !refused
	if p.stale { // the play continues without the hook
		p.until = now.Add(failedKeep)
		return
	}
	if t.open && err == errFails {
		a, err = Answer{Keep: failedKeep}, nil
	}
	if err == nil {
		p.q.Name = cmp.Or(a.Name, p.q.Stream)
		if p.answer = a; !p.allowed && a.MaxTime > 0 {
			p.over = now.Add(a.MaxTime)
		}
		p.allowed, p.until = true, now.Add(a.Keep)
		// No caller waits for the answer any more.
		if gone := t.plays[p.key] != p; gone && p.waiters == 0 || p.q.Protocol != HLS &&
			p.players == 0 {
			t.endPlay(p, "the client has gone")
		}
		return
	}
	current := t.plays[p.key] == p // false if another play has begun since p ended
	t.endPlay(p, "refused: "+err.Error())
	p.allowed, p.err, p.until = false, err, now.Add(failedKeep)
	if refused {
		p.until = now.Add(a.Keep)
	}
	if current && len(t.plays) < maxRefused && !t.closed {
		t.plays[p.key] = p
	}
}

// sweepAll ends the plays of HLS players that have stopped sending requests, and removes expired
// refusals, until t is closed.
func (t *playTable) sweepAll() {
	defer close(t.swept)
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			t.sweep(time.Now())
		case <-t.closing.Done():
			return
		}
	}
}

func (t *playTable) sweep(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key, p := range t.plays {
		switch {
		case p.asking:
		case !p.allowed:
			if !now.Before(p.until) {
				delete(t.plays, key)
			}
		case p.q.Protocol != HLS:
		case !p.over.IsZero() && !now.Before(p.over):
			t.endPlay(p, "time is up")
		case now.Sub(p.asked) >= hlsIdle && !now.Before(p.until):
			t.endPlay(p, "it asks no more")
		}
	}
}

// close ends the remaining plays. It returns false if it was called before.
func (t *playTable) close() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	for _, p := range t.plays {
		t.endPlay(p, "the server is shutting down")
	}
	t.closed = true
	return true
}

// wait waits for the goroutines of t. They return when t.closing has ended.
func (t *playTable) wait() {
	t.deciding.Wait()
	<-t.swept
}

// size returns the number of plays in the table.
func (t *playTable) size() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.plays)
}
