package hlslive

import "time"

// silentTargets is for how many target durations requests wait for something new (RFC 8216bis,
// 6.2.5.2).
const silentTargets = 3

// news wakes the requests of a Window that wait for something new. Guarded by Window.mu.
type news struct {
	changed chan struct{} // closed and replaced when requests are to look again
	silence *time.Timer   // calls Window.noteSilence
	silent  bool          // nothing new has come for silentTargets target durations
	waiting int           // requests that wait
}

// tell wakes the requests, because there is something new.
func (n *news) tell(target time.Duration) {
	n.silent = false
	n.silence.Reset(max(silentTargets*target, time.Second))
	n.wake()
}

// wake wakes the requests.
func (n *news) wake() {
	close(n.changed)
	n.changed = make(chan struct{})
}

// timedOut reports whether a request that came at a time of now has waited for long enough: for a
// target duration, with nothing new for silentTargets of them.
func (n *news) timedOut(asked int64, target time.Duration) bool {
	return n.silent && time.Duration(now()-asked) >= target
}
