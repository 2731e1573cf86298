package redisbuf

import "sync/atomic"

// Stats describes the state of a Client, and counts the work of the Client since New. The numbers
// include all servers.
type Stats struct {
	Conns   int // open connections: InUse plus Idle
	InUse   int // connections that a call or a Conn uses
	Idle    int // connections that no call uses
	Waiting int // calls that wait for a connection

	InFlight        int64 // bytes of values in flight, as the option MaxInFlight counts them
	InFlightLimit   int64 // the value of the option MaxInFlight
	InFlightWaiting int   // calls that wait until fewer bytes are in flight

	Dials int64 // attempts to make a connection, except the checks of a Sentinel's master
	// DialsFailed counts dials that did not reach the server or were refused the login.
	DialsFailed int64
	Dropped     int64 // connections that were lost, or closed because of a call's result
	Retries     int64 // retries of calls
	Redirects   int64 // Retries because of a MOVED or ASK
}

// counters holds the fields of Stats that only grow.
type counters struct {
	dials, dialsFailed, dropped, retries, redirects atomic.Int64
}

// Stats returns the Client's statistics, even after Close. It allocates nothing, and locks each
// server's pool for a moment. The figures may belong to slightly different moments.
func (c *Client) Stats() Stats {
	s := Stats{ // read each part before its total, so that the part is never larger
		InFlight: c.inFlight.taken.Load(), InFlightLimit: c.settings.inFlight,
		InFlightWaiting: int(c.inFlight.waiting.Load()),
		DialsFailed:     c.counters.dialsFailed.Load(), Dials: c.counters.dials.Load(),
		Dropped:   c.counters.dropped.Load(),
		Redirects: c.counters.redirects.Load(), Retries: c.counters.retries.Load(),
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, n := range c.nodes {
		n.stats(&s)
	}
	s.InUse = s.Conns - s.Idle
	return s
}
