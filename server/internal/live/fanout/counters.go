package fanout

import "sync/atomic"

// Counters count viewers and writes. The zero value is ready to use.
//
// They are plain atomic numbers, because a metrics library is too slow for numbers that change with
// every batch.
type Counters struct {
	writeCalls atomic.Int64
	written    [paths]atomic.Int64
	viewers    [paths]atomic.Int64
	came       [paths]atomic.Int64
	behind     [reasons]atomic.Int64
	dropped    [reasons]atomic.Int64
}

// Stats is a snapshot of Counters. The maps have an entry for every possible key.
type Stats struct {
	BytesOut   int64
	WriteCalls int64 // writev calls, for viewers over plain TCP
	// Viewers by the call that writes to them: "writev", "write" or "responsewriter".
	Paths       map[string]PathStats
	FoundBehind map[string]int64 // viewers that exceeded an allowance, by reason
	Dropped     map[string]int64 // viewers that the server disconnected, by reason
}

// PathStats counts the viewers of one path, such as "writev"; see Stats.Paths.
type PathStats struct {
	Viewers  int64 // current viewers
	Came     int64 // all viewers so far
	BytesOut int64 // bytes written to these viewers
}

// Stats returns a snapshot of c.
func (c *Counters) Stats() Stats {
	st := Stats{WriteCalls: c.writeCalls.Load(), Paths: make(map[string]PathStats),
		FoundBehind: make(map[string]int64),
		Dropped:     make(map[string]int64)}
	for p := range paths {
		out := c.written[p].Load()
		st.BytesOut += out
		st.Paths[p.String()] = PathStats{Viewers: c.viewers[p].Load(), Came: c.came[p].Load(),
			BytesOut: out}
	}
	for why := range reasons {
		if why.byServer() {
			st.Dropped[why.label()] = c.dropped[why].Load()
			if why <= Evicted {
				st.FoundBehind[why.label()] = c.behind[why].Load()
			}
		}
	}
	return st
}

func (c *Counters) addViewer(p path) {
	c.came[p].Add(1)
	c.viewers[p].Add(1)
}

func (c *Counters) removeViewer(p path, reason Reason) {
	c.viewers[p].Add(-1)
	if reason.byServer() {
		c.dropped[reason].Add(1)
	}
}

// A tally counts writes until flush adds the counts to Counters.
type tally struct {
	calls int64 // writev calls
	bytes int64
}

func (t *tally) take(other *tally) {
	t.calls += other.calls
	t.bytes += other.bytes
	*other = tally{}
}

// flush moves the counts of t to c. One call covers many viewers, which saves atomic additions.
func (t *tally) flush(c *Counters, p path) {
	if t.bytes == 0 && t.calls == 0 {
		return
	}
	c.writeCalls.Add(t.calls)
	c.written[p].Add(t.bytes)
	*t = tally{}
}
