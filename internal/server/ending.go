package server

import "github.com/millrace-io/millrace/broadcast"

// An ending says why a viewer is no longer served. The first one counts.
type ending int32

const (
	stillHere ending = iota
	gone             // it closed its connection
	finished         // the stream ended, and it got all of it
	lagBytes         // dropped by policy: further behind than its allowance
	lagFrames        // the same
	lagTime          // the same
	evicted          // dropped by policy: what it had still to get is no longer kept
	stalled          // dropped: it took nothing for longer than the stall timeout
	drained          // the server's time to drain was over
	broken           // the connection failed, or the server did

	endings // how many there are
)

var endingNames = [endings]string{
	"still here", "viewer left", "stream ended", "behind by bytes", "behind by frames", "behind by time",
	"behind what is kept", "stalled", "drain timeout", "error",
}

func (e ending) String() string { return endingNames[e] }

// dropped says whether it was the server that wanted the viewer gone.
func (e ending) dropped() bool { return e >= lagBytes && e <= drained }

// losses are the reasons of the ring that droppings by policy stand for.
var losses = [endings]broadcast.Reason{
	lagBytes:  broadcast.LagBytes,
	lagFrames: broadcast.LagFrames,
	lagTime:   broadcast.LagTime,
	evicted:   broadcast.Evicted,
}

// label is what the metrics call a dropping.
func (e ending) label() string {
	if why := losses[e]; why != broadcast.NotMissed {
		return why.Label()
	}
	switch e {
	case stalled:
		return "stalled"
	case drained:
		return "drain"
	}
	return "other"
}

// endingOf is the dropping that a loss of frames stands for when the policy is to drop.
func endingOf(why broadcast.Reason) ending {
	switch why {
	case broadcast.LagBytes:
		return lagBytes
	case broadcast.LagFrames:
		return lagFrames
	case broadcast.LagTime:
		return lagTime
	}
	return evicted
}
