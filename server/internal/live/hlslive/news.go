package hlslive

import "time"

// silentTargets is how long a request waits while no new part or segment is added, in target
// durations. See RFC 8216bis, 6.2.5.2.
const silentTargets = 3

// news wakes the requests of a Window that wait for something new. It is guarded by Window.mu.
type news struct {
	changed chan struct{} // closed and replaced when requests must check again
	silence *time.Timer   // calls Window.noteSilence
	silent  bool          // nothing new has come for silentTargets target durations
	waiting int           // number of requests that wait
}

// tell wakes the HTTP requests that wait for a new part or segment, because one has been added.
func (n *news) tell(target time.Duration) {
	n.silent = false
	n.silence.Reset(max(silentTargets*target, time.Second))
	n.wake()
}

func (n *news) wake() {
	close(n.changed)
	n.changed = make(chan struct{})
}

// timedOut reports whether a request must not wait any longer. This is the case if the request has
// waited for at least one target duration, and nothing new has come for silentTargets target
// durations. asked is when the request arrived, in ns.
func (n *news) timedOut(asked int64, target time.Duration) bool {
	return n.silent && time.Duration(now()-asked) >= target
}
