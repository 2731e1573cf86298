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
	// maxPlays is the maximum number of Plays in the table. Each takes about 700 bytes, and all of
	// them take at most 22 MiB.
	maxPlays = 32 << 10
	// If the table has at least maxRefused entries, refusals are not stored. Clients with invented
	// tokens therefore cannot fill the table.
	maxRefused = maxPlays / 4
	// hlsIdle is how long the hook's permission for an HLS player is kept after the player's last
	// request. If the permission is valid for longer, it is kept until it expires. hlsIdle is
	// longer than the longest segment.
	hlsIdle = 20 * time.Second
	// failedKeep is how long a failure of the hook is remembered. During this time, further players
	// with equal requests (the same playKey) get the same result, without another request to the
	// hook. If the hook fails to renew an expired answer, the old answer is used for this time.
	failedKeep = time.Second
	sweepEvery = time.Second
)

// A Play is the hook's permission to play a stream. Players with equal requests (the same playKey)
// share a Play. A refusal is stored as a Play, too.
//
// A player with a permanent connection keeps its Play until it leaves, even if the hook's answer
// expires. Players that come after the answer has expired get a new Play.
//
// An HLS player has no permanent connection. It keeps its Play, and the Play's ID, as long as it
// sends requests. If a request comes after the hook's answer has expired, the hook is asked again,
// and the Play stores the new answer.
type Play struct {
	t   *playTable
	key playKey
	q   Request // request of the first player, without the credentials

	served atomic.Int64 // bytes sent to all players

	// t.mu guards the following fields. The channel ready is closed when the answer has arrived,
	// and is replaced when the hook is asked again.
	ready   chan struct{}
	asking  bool
	answer  Answer
	err     error
	allowed bool
	// stale is set if the hook has failed to renew the answer. The old answer is then used, and
	// requests do not wait for the next answer.
	stale   bool
	until   time.Time // when the answer expires
	over    time.Time // end of the time that the hook allows; zero if there is no limit
	players int       // players with a permanent connection; some may wait for the answer
	// waiters is the number of callers that wait for the answer. If all of them leave before the
	// first answer arrives, forget cancels the request.
	waiters int
	forget  context.CancelFunc
	asked   time.Time // time of the latest request of an HLS player
	ended   bool
}

// A playTable stores the hook's answers about players. A permission is stored while players use it,
// and a refusal until it expires. The methods of a playTable may be called from any goroutine.
type playTable struct {
	asker   *asker
	ends    *endQueue
	counts  *counter
	open    bool            // see Config.Open
	closing context.Context // ends when Client.Close gives up

	deciding sync.WaitGroup
	swept    chan struct{} // closed when the sweeper has returned
	hits     atomic.Int64

	mu     lock.Mutex // locked before endQueue.mu
	closed bool
	plays  map[playKey]*Play
}

// Answer returns the hook's answer.
func (p *Play) Answer() Answer {
	p.t.mu.Lock()
	defer p.t.mu.Unlock()
	return p.answer
}

// Served adds n to the number of bytes that were sent to players.
func (p *Play) Served(n int) { p.served.Add(int64(n)) }

// End must be called when a player with a permanent connection has left. The argument bytes is the
// number of bytes that were sent to the player and not passed to Served. When the last player of
// the Play has left, End queues an end event for the hook.
func (p *Play) End(reason string, bytes int64) {
	p.served.Add(bytes)
	p.t.mu.Lock()
	defer p.t.mu.Unlock()
	p.t.leave(p, reason)
}

// leave records that a player with a permanent connection has left. If this was the last player,
// leave ends p. The caller must hold t.mu.
func (t *playTable) leave(p *Play, reason string) {
	if p.players--; p.players == 0 && !p.asking && p.allowed {
		t.endPlay(p, reason)
	}
}

// endPlay removes p from the table. If the hook had allowed p, endPlay sends an end event to the
// hook. The caller must hold t.mu.
func (t *playTable) endPlay(p *Play, reason string) {
	if t.plays[p.key] == p {
		delete(t.plays, p.key)
	}
	if p.allowed && !p.ended {
		p.ended = true
		t.ends.add(p.q.endEvent(reason, p.served.Load()))
	}
}

// play returns the Play for a request to play a stream. If the table has no valid answer for the
// request, play asks the hook and waits for the answer. The caller must have called Request.prepare
// on the request.
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
		var queueCtx context.Context
		queueCtx, p.forget = context.WithCancel(t.closing)
		t.deciding.Add(1)
		go t.decide(queueCtx, p, *q)
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
		if t.plays[p.key] == p { // so that the next caller starts a new play
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

// decide asks the hook about a player, stores the answer in p, and wakes the callers that wait for
// the answer. The context queueCtx ends when no caller waits any longer. If the request is still in
// the queue at that time, decide does not send it.
func (t *playTable) decide(queueCtx context.Context, p *Play, q Request) {
	defer t.deciding.Done()
	defer p.forget()
	a, err := t.asker.ask(t.closing, queueCtx, &q)
	t.mu.Lock()
	defer t.mu.Unlock()
	defer close(p.ready)
	now, refused := time.Now(), isRefusal(err)
	p.asking = false
	p.stale = p.allowed && err != nil && !refused
	if p.stale { // continue without the hook
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
		// All players left before the hook's answer arrived. Tell the hook at once that they have
		// left.
		if gone := t.plays[p.key] != p; gone && p.waiters == 0 || p.q.Protocol != HLS &&
			p.players == 0 {
			t.endPlay(p, "the client has gone")
		}
		return
	}
	current := t.plays[p.key] == p // false if a new play has replaced p
	t.endPlay(p, "refused: "+err.Error())
	p.allowed, p.err, p.until = false, err, now.Add(failedKeep)
	if refused {
		p.until = now.Add(a.Keep)
	}
	if current && len(t.plays) < maxRefused && !t.closed {
		t.plays[p.key] = p
	}
}

// sweepAll regularly removes refusals that have expired, and HLS players that have left or used up
// their time. It returns when the context t.closing ends.
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

// close ends all Plays in the table, and sends end events for them to the hook. It returns false if
// the table was already closed.
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

// wait waits until the goroutines of t have ended. The caller must first cancel t.closing.
func (t *playTable) wait() {
	t.deciding.Wait()
	<-t.swept
}

func (t *playTable) size() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.plays)
}
