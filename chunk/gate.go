package chunk

import (
	"context"
	"sync"
)

// mostSpares is how many turns a gate keeps for whoever waits next. One goroutine that hands out work needs one.
const mostSpares = 16

// gate lets a limited number pass at a time, in the order in which they came.
//
// Invariants, under mu:
//
//	1 ≤ limit, 0 ≤ running
//	running < limit: nobody waits
//	running > limit only after limit fell, and until enough have released
type gate struct {
	mu             sync.Mutex
	limit, running int
	waited         int64 // turns that had to be waited for, ever

	first, last *turn // those who wait
	waiting     int
	spare       *turn // turns that are over
	spares      int
}

// turn is one who waits.
type turn struct {
	come       chan struct{} // has one when the turn has come
	prev, next *turn
}

func newGate(limit int) *gate { return &gate{limit: limit} }

func (g *gate) acquire(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	g.mu.Lock()
	if g.running < g.limit {
		g.running++
		g.mu.Unlock()
		return nil
	}
	t := g.enqueue()
	g.mu.Unlock()
	select {
	case <-t.come:
		g.mu.Lock()
		g.retire(t)
		g.mu.Unlock()
		return nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-t.come: // came at the same moment, and goes to the next one
		g.running--
		g.admit()
	default:
		g.remove(t)
	}
	g.retire(t)
	return ctx.Err()
}

// enter is acquire for a caller that may pass even if ctx has ended, as long as it need not wait for anybody.
func (g *gate) enter(ctx context.Context) error {
	g.mu.Lock()
	free := g.running < g.limit
	if free {
		g.running++
	}
	g.mu.Unlock()
	if free {
		return nil
	}
	return g.acquire(ctx)
}

func (g *gate) release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.running == 0 {
		panic("chunk: Release without Acquire")
	}
	g.running--
	g.admit()
}

func (g *gate) setLimit(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.limit = n
	g.admit()
}

// load returns how many are at work, how many wait, and how many ever had to wait.
func (g *gate) load() (running, waiting int, waited int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.running, g.waiting, g.waited
}

// admit lets pass those for whom there is room. g.mu is held.
func (g *gate) admit() {
	for g.first != nil && g.running < g.limit {
		t := g.first
		g.remove(t)
		g.running++
		t.come <- struct{}{}
	}
}

// enqueue makes the caller wait behind all others. g.mu is held.
func (g *gate) enqueue() *turn {
	t := g.spare
	if t != nil {
		g.spare, t.next = t.next, nil
		g.spares--
	} else {
		t = &turn{come: make(chan struct{}, 1)}
	}
	if t.prev = g.last; t.prev != nil {
		t.prev.next = t
	} else {
		g.first = t
	}
	g.last = t
	g.waiting++
	g.waited++
	return t
}

// remove takes t out of those who wait. g.mu is held.
func (g *gate) remove(t *turn) {
	if t.prev != nil {
		t.prev.next = t.next
	} else {
		g.first = t.next
	}
	if t.next != nil {
		t.next.prev = t.prev
	} else {
		g.last = t.prev
	}
	t.prev, t.next = nil, nil
	g.waiting--
}

// retire keeps t, which nobody waits for any more, for the next one. g.mu is held.
func (g *gate) retire(t *turn) {
	if g.spares < mostSpares {
		t.next, g.spare = g.spare, t
		g.spares++
	}
}
