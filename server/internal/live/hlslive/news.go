package hlslive

import "time"

// silentTargets determines when a waiting request may time out: when the playlist has not changed
// for this many target durations. See RFC 8216bis, 6.2.5.2.
const silentTargets = 3

// The news struct of a Window wakes the requests that wait for a new part or segment. Window.mu
// guards the struct.
type news struct {
	changed chan struct{} // closed and replaced when the playlist changes or waiters must give up
	silence *time.Timer   // calls Window.noteSilence
	silent  bool          // no part or segment has been added for a while; see silentTargets
	waiting int           // number of requests that wait
}

// tell wakes the waiting requests, and restarts the timer. The parameter is the target duration of
// the playlist. wakeRequests is called when a part or segment has been added.
func (n *news) tell(target time.Duration) {
	n.silent = false
	n.silence.Reset(max(silentTargets*target, time.Second))
	n.wake()
}

func (n *news) wake() {
	close(n.changed)
	n.changed = make(chan struct{})
}

// timedOut reports whether a request must stop waiting. This is the case if n.silent is set and the
// request has waited for at least one target duration. arrival is the time when the request
// arrived; see nanotime.
func (n *news) timedOut(arrival int64, target time.Duration) bool {
	return n.silent && time.Duration(nanotime()-arrival) >= target
}
