package redisbuf

import "sync/atomic"

// Stats says what a Client is doing at a moment, to all servers together, and how often it did some things since New.
type Stats struct {
	Conns   int // connections that are open: InUse and Idle
	InUse   int // those that a call or a Conn has
	Idle    int // those that wait for the next call
	Waiting int // calls that wait for a connection, because there are as many as the option Conns allows

	// Bytes of values that are under way, as the option InFlight counts them. Calls of up to 16 KiB, and those of a Conn, do not
	// count.
	InFlight        int64
	InFlightLimit   int64 // what the option says, in bytes
	InFlightWaiting int   // calls that wait until less is under way

	Dials       int64 // connections that were to be made, but for those that only check where a Sentinel's master is
	DialsFailed int64 // of these, those without success: nobody was there, or did not let the client log in
	Dropped     int64 // connections that were lost, or given up because of how a call ended: not those that were idle or old
	Retries     int64 // times that a call was to be tried again, or sent on
	Redirects   int64 // of these, those because of a MOVED or ASK
}

// counters are those of a Client. Nothing that they count happens in a call that goes well on a connection that there is.
type counters struct {
	dials, dialsFailed, dropped, retries, redirects atomic.Int64
}

// again counts a call that is to be tried again.
func (c *counters) again(redirected bool) {
	c.retries.Add(1)
	if redirected {
		c.redirects.Add(1)
	}
}

// Stats returns what the Client is doing, also after Close. It allocates nothing, and is meant to be called every few seconds
// by whoever watches the program: it looks at each connection. The figures need not be of the same moment.
func (c *Client) Stats() Stats {
	s := Stats{ // a part is read before the whole, so that it is never more
		InFlight: c.inFlight.taken.Load(), InFlightLimit: c.settings.inFlight, InFlightWaiting: int(c.inFlight.waiting.Load()),
		DialsFailed: c.counters.dialsFailed.Load(), Dials: c.counters.dials.Load(), Dropped: c.counters.dropped.Load(),
		Redirects: c.counters.redirects.Load(), Retries: c.counters.retries.Load(),
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, n := range c.nodes {
		s.Waiting += int(n.turns.waiting.Load())
		n.mu.Lock()
		for c := range n.live {
			s.Conns++
			if c.used.Load() {
				s.InUse++
			}
		}
		n.mu.Unlock()
	}
	s.Idle = s.Conns - s.InUse
	return s
}
