package server

import "github.com/millrace-io/millrace/broadcast"

// An ending says why a viewer is no longer served. The first one counts.
type ending int32

const (
	stillHere ending = iota
	gone             // it closed its connection
	finished         // the stream ended, and it got all of it
	recoded          // the stream goes on with other codecs, which an MP4 file cannot follow; it got all up to there
	lagBytes         // dropped by policy: further behind than its allowance
	lagFrames        // the same
	lagTime          // the same
	evicted          // dropped by policy: what it had still to get is no longer kept
	stalled          // dropped: it took nothing for longer than the stall timeout
	drained          // the server's time to drain was over
	unmade           // dropped: what it watched, MP4, could not be made any more
	broken           // the connection failed, or the server did

	endings // how many there are
)

var endingNames = [endings]string{
	"still here", "viewer left", "stream ended", "codecs changed", "behind by bytes", "behind by frames", "behind by time",
	"behind what is kept", "stalled", "drain timeout", "MP4 failed", "error",
}

func (e ending) String() string { return endingNames[e] }

// dropped says whether it was the server that wanted the viewer gone.
func (e ending) dropped() bool { return e >= lagBytes && e <= unmade }

// whole says whether what the viewer got has a proper end. Otherwise its client must be able to tell.
func (e ending) whole() bool { return e == finished || e == recoded }

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
	case unmade:
		return "mp4"
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
