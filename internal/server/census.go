package server

import (
	"fmt"
	"sync"
)

// A census counts the viewers of all streams, including those that wait for one, and keeps their number within its
// bound.
//
// Invariants, while mu is not held:
//
//	0 ≤ len(viewers) ≤ admitted ≤ max
//	empty is closed if, and only if, closed and admitted == 0
//	each of viewers has been ended, unless over is stillHere
type census struct {
	max int

	mu       sync.Mutex
	admitted int                  // viewers that have a place, served or not
	viewers  map[*viewer]struct{} // of these, those that are being served
	over     ending               // why everybody has been ended; stillHere: nobody was
	closed   bool
	empty    chan struct{}
}

func newCensus(maxViewers int) *census {
	return &census{max: maxViewers, viewers: make(map[*viewer]struct{}), empty: make(chan struct{})}
}

// admit gives a place to a viewer that wants to watch. leave gives it back.
func (c *census) admit() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return errDraining
	}
	if c.admitted >= c.max {
		return &fullError{fmt.Sprintf("the server has %d viewers, as many as --max-viewers allows", c.max)}
	}
	c.admitted++
	return nil
}

// enter notes that v has what it wanted: it is being served in the place that it was admitted to.
func (c *census) enter(v *viewer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.viewers[v] = struct{}{}
	if c.over != stillHere {
		v.end(c.over)
	}
}

// leave gives up a place. v is nil when nobody was served in it.
func (c *census) leave(v *viewer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.viewers, v)
	c.admitted--
	c.settle()
}

// close admits nobody else, and returns a channel that is closed when all have left.
func (c *census) close() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.closed = true
		c.settle()
	}
	return c.empty
}

func (c *census) settle() {
	if c.closed && c.admitted == 0 {
		close(c.empty)
	}
}

// count returns how many are being served.
func (c *census) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.viewers)
}

// end ends all who are being served, and those who were admitted and are about to be.
func (c *census) end(why ending) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = why
	for v := range c.viewers {
		v.end(why)
	}
}
