package relay

import "github.com/millrace-io/millrace/broadcast"

// A disconnectReason says why a viewer is no longer served. The first one counts.
type disconnectReason int32

const (
	connected    disconnectReason = iota
	hungUp                        // the viewer closed its connection
	streamEnded                   // the viewer got all of the stream
	codecsChange                  // the viewer got all up to codecs that an MP4 file cannot follow
	lagBytes                      // dropped by policy: further behind than its allowance
	lagFrames                     // the same
	lagTime                       // the same
	evicted                       // dropped by policy: what it had still to get is no longer kept
	stalled                       // dropped: it took nothing for longer than the stall timeout, or no answers
	drained                       // dropped: the time to drain was over
	crowded                       // dropped: memory was short, and it was behind
	moved                         // dropped: another node, and the stream has another owner
	makingFailed                  // dropped: its form of the stream could not be made any more
	byOperator                    // dropped: the operator has ended it
	timeUp                        // dropped: its time was over that it was allowed
	failed                        // the connection failed, or the server did

	disconnectReasons // how many there are
)

// reasons says for each reason what the log says, and its label in metrics if the server disconnects viewers for it.
var reasons = [disconnectReasons]struct{ text, label string }{
	connected:    {"connected", ""},
	hungUp:       {"viewer left", ""},
	streamEnded:  {"stream ended", ""},
	codecsChange: {"codecs changed", ""},
	lagBytes:     {"behind by bytes", "lag_bytes"},
	lagFrames:    {"behind by frames", "lag_frames"},
	lagTime:      {"behind by time", "lag_time"},
	evicted:      {"behind what is kept", "evicted"},
	stalled:      {"stalled", "stalled"},
	drained:      {"drain timeout", "drain"},
	crowded:      {"behind while memory is short", "memory"},
	moved:        {"stream moved", "moved"},
	makingFailed: {"form not made", "form"},
	byOperator:   {"ended by the operator", "operator"},
	timeUp:       {"time is up", "time"},
	failed:       {"error", ""},
}

func (r disconnectReason) String() string { return reasons[r].text }

// label is the name of r in metrics; "" if the server does not disconnect viewers for it.
func (r disconnectReason) label() string { return reasons[r].label }

// byServer reports whether the server disconnected the viewer.
func (r disconnectReason) byServer() bool { return r.label() != "" }

// complete reports whether what the viewer got has a proper end. Otherwise its client must be able to tell.
func (r disconnectReason) complete() bool { return r == streamEnded || r == codecsChange }

// lagReason returns the reason to drop a viewer that lost frames.
func lagReason(why broadcast.Reason) disconnectReason {
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
