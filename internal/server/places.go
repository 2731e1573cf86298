package server

import (
	"fmt"
	"sync"
	"sync/atomic"
)

// places are what a bounded number of requests may have at a time.
//
// Invariants, while mu is not held:
//
//	0 ≤ taken ≤ most
//	empty is closed if, and only if, closed and taken == 0
type places struct {
	most   int
	reason string // of a refusal, with a %d for most

	mu     sync.Mutex
	taken  int
	closed bool
	empty  chan struct{}

	refused atomic.Int64 // because all were taken
}

func newPlaces(most int, reason string) *places {
	return &places{most: most, reason: reason, empty: make(chan struct{})}
}

// enter takes a place, which leave gives back.
func (p *places) enter() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return errDraining
	}
	if p.taken >= p.most {
		p.refused.Add(1)
		return fmt.Errorf(p.reason, p.most)
	}
	p.taken++
	return nil
}

func (p *places) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken--
	p.settle()
}

// settle is called with mu held.
func (p *places) settle() {
	if p.closed && p.taken == 0 {
		close(p.empty)
	}
}

func (p *places) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.taken
}

// drain lets nobody else in, and returns a channel that is closed when all have left.
func (p *places) drain() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.closed = true
		p.settle()
	}
	return p.empty
}
