package redisbuf

import (
	"sync"
	"time"
)

// A watchdog ends a splice when the server holds it up for the timeout. A deadline cannot do that: it would pass while the
// other end takes its time, and what has left one socket then and has not got to the other is lost.
//
// Invariant: still ≤ slack.
type watchdog struct {
	c   *conn
	out bool // bytes go to the server

	mu    sync.Mutex
	timer *time.Timer
	steps int  // of the splice that are done
	last  flow // at the last look
	still int  // looks in a row at which the server had moved nothing, though it was its turn
	bit   bool // it was too long
	ended bool
}

// A flow is what tells that bytes move.
type flow struct {
	steps int
	bytes uint64 // that the kernel has got from the server, or brought to it, where it counts them
}

// watchServer has the server watched from now on. The call that ends that is end.
func (c *conn) watchServer(out bool) *watchdog {
	g := &watchdog{c: c, out: out}
	if c.timeout > 0 {
		g.mu.Lock() // the timer may be quick
		defer g.mu.Unlock()
		g.timer = time.AfterFunc(c.timeout/slack, g.look)
	}
	return g
}

// look is called slack times in a timeout.
func (g *watchdog) look() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended {
		return
	}
	bytes, turn := g.c.flowing(g.out)
	now := flow{g.steps, bytes}
	if !turn || now != g.last {
		g.still, g.last = 0, now
	} else if g.still++; g.still == slack {
		g.bit = true
		_ = g.c.conn.SetDeadline(longAgo)
		return
	}
	g.timer.Reset(g.c.timeout / slack)
}

// stepped is called when a part has arrived.
func (g *watchdog) stepped() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.steps++
}

// end ends the watch, and reports whether it has ended the splice.
func (g *watchdog) end() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ended = true
	if g.timer != nil {
		g.timer.Stop()
	}
	return g.bit
}
