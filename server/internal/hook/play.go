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
	// maxPlays bounds the table of plays. One takes about 700 bytes: 22 MiB.
	maxPlays = 32 << 10
	// maxRefused is how many there may be for a refusal to be kept: clients that invent tokens must
	// leave room for others.
	maxRefused = maxPlays / 4
	// hlsIdle is how long a player of HLS may ask for nothing: longer than the longest segment
	// lasts.
	hlsIdle = 20 * time.Second
	// failedKeep is how long a failure counts for players that show the same, and an answer that a
	// failure leaves in force.
	failedKeep = time.Second
	// sweepEvery is how often plays are looked for that have ended.
	sweepEvery = time.Second
)

// A Play is an answer of the hook for players that show the same.
//
// Over a connection it lasts until the last of its players has ended; players that come when the
// answer is too old get another Play. Of HLS it is one from the first request on, with one ID: when
// the answer is too old, the next request asks again.
type Play struct {
	t   *playTable
	key playKey
	q   Request // the first request, without the client's credentials

	served atomic.Int64 // bytes

	// Guarded by t.mu.
	ready   chan struct{} // closed when the answer is there; another one when it is asked for again
	asking  bool
	answer  Answer
	err     error
	allowed bool
	// The hook has failed since the answer, which counts all the same: no request waits for the
	// next one.
	stale   bool
	until   time.Time // the answer counts
	over    time.Time // the time that the hook allows, if it is not zero
	players int       // players with connections, including waiting ones
	// Callers that wait for the first answer; when the last one has left, forget ends the question.
	waiters int
	forget  context.CancelFunc
	asked   time.Time // of HLS: the latest request
	ended   bool
}

// A playTable has the running plays, and the refusals that are still valid. Its methods may be
// called from any goroutine.
type playTable struct {
	asker   *asker
	ends    *endQueue
	counts  *counter
	open    bool            // see Config.Open
	closing context.Context // ends with the last moment of Client.Close

	deciding sync.WaitGroup
	swept    chan struct{} // closed when the sweeper has ended
	hits     atomic.Int64

	mu     lock.Mutex // before that of ends
	closed bool
	plays  map[playKey]*Play
}

// Answer returns the hook's answer.
func (p *Play) Answer() Answer {
	p.t.mu.Lock()
	defer p.t.mu.Unlock()
	return p.answer
}

// Served notes bytes that a player has got.
func (p *Play) Served(n int) { p.served.Add(int64(n)) }

// End ends a player with a connection, which got bytes in addition to those of Served. The hook is
// told when the last player has ended.
func (p *Play) End(reason string, bytes int64) {
	p.served.Add(bytes)
	p.t.mu.Lock()
	defer p.t.mu.Unlock()
	p.t.leave(p, reason)
}

// leave is End with t.mu held.
func (t *playTable) leave(p *Play, reason string) {
	if p.players--; p.players == 0 && !p.asking && p.allowed {
		t.endPlay(p, reason)
	}
}

// endPlay removes p, and tells the hook of its end if it was allowed. t.mu is held.
func (t *playTable) endPlay(p *Play, reason string) {
	if t.plays[p.key] == p {
		delete(t.plays, p.key)
	}
	if p.allowed && !p.ended {
		p.ended = true
		t.ends.add(p.q.ended(reason, p.served.Load()))
	}
}

// play asks the hook whether the client of q may play, unless an answer counts that is there or on
// its way. q is complete.
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
		if t.plays[p.key] == p { // who comes next asks anew
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

// decide asks for the answer of p, for all who wait for it. The question is dropped if wanted ends
// before its turn comes.
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
	if p.stale { // a running play continues without the hook
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
		// All have gone.
		if gone := t.plays[p.key] != p; gone && p.waiters == 0 || p.q.Protocol != HLS &&
			p.players == 0 {
			t.endPlay(p, "the client has gone")
		}
		return
	}
	current := t.plays[p.key] == p // and not one that began when the time of p was up
	t.endPlay(p, "refused: "+err.Error())
	p.allowed, p.err, p.until = false, err, now.Add(failedKeep)
	if refused {
		p.until = now.Add(a.Keep)
	}
	if current && len(t.plays) < maxRefused && !t.closed {
		t.plays[p.key] = p
	}
}

// sweepAll ends the plays of HLS players that have stopped asking, and forgets refusals, until t is
// closed.
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

// close ends the plays that are left. It reports false if that has been done already.
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

// wait waits for the goroutines of t, which end when closing does.
func (t *playTable) wait() {
	t.deciding.Wait()
	<-t.swept
}

// size returns how many answers are kept.
func (t *playTable) size() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.plays)
}
