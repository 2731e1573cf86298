package hlslive

import "time"

// silentTargets is how long, in target durations, a playlist may stay unchanged before waiting
// requests may time out. See RFC 8216bis, 6.2.5.2.
const silentTargets = 3

// news wakes the requests of a Window that wait for something new. It is guarded by Window.mu.
type news struct {
	changed chan struct{} // closed and replaced when requests must check again
	silence *time.Timer   // calls Window.noteSilence
	silent  bool          // nothing new has been added for a while; see silentTargets
	waiting int           // number of requests that wait
}

// tell wakes the waiting requests, and restarts the timer. It is called when a part or segment has
// been added.
func (n *news) tell(target time.Duration) {
	n.silent = false
	n.silence.Reset(max(silentTargets*target, time.Second))
	n.wake()
}

func (n *news) wake() {
	close(n.changed)
	n.changed = make(chan struct{})
}

// timedOut reports whether n.silent is set and the request has waited for at least one target
// duration. The request must then stop waiting. arrival is when the request arrived; see nanotime.
func (n *news) timedOut(arrival int64, target time.Duration) bool {
	return n.silent && time.Duration(nanotime()-arrival) >= target
}
