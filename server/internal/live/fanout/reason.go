package fanout

import "github.com/millrace-io/millrace/broadcast"

// A Reason says why a viewer is no longer served. The first one counts.
type Reason int32

const (
	Connected     Reason = iota // the viewer is served
	HungUp                      // the viewer closed its connection
	StreamEnded                 // the viewer got all of the stream
	CodecsChanged               // the viewer got all up to codecs that its file cannot contain
	LagBytes                    // dropped by policy: further behind than its allowance in bytes
	LagFrames                   // the same in frames
	LagTime                     // the same in time
	Evicted                     // dropped by policy: the ring no longer keeps its next frame
	// dropped: it took nothing for longer than the stall timeout, or no replies.
	Stalled
	Drained          // dropped: the time to drain was over
	Crowded          // dropped: memory was short, and it was behind
	Moved            // dropped: another node, and the stream has another owner
	ConversionFailed // dropped: its form of the stream cannot be made any more
	ByOperator       // dropped: the operator ended it
	TimeUp           // dropped: it was allowed to watch no longer
	Failed           // the connection failed, or the server did

	reasons // how many there are
)

// reasonNames has the text of each reason for the log, and its label in metrics if the server
// disconnects viewers for it.
var reasonNames = [reasons]struct{ text, label string }{
	Connected:        {"connected", ""},
	HungUp:           {"viewer left", ""},
	StreamEnded:      {"stream ended", ""},
	CodecsChanged:    {"codecs changed", ""},
	LagBytes:         {"behind by bytes", "lag_bytes"},
	LagFrames:        {"behind by frames", "lag_frames"},
	LagTime:          {"behind by time", "lag_time"},
	Evicted:          {"behind the kept frames", "evicted"},
	Stalled:          {"stalled", "stalled"},
	Drained:          {"drain timeout", "drain"},
	Crowded:          {"behind while memory is short", "memory"},
	Moved:            {"stream moved", "moved"},
	ConversionFailed: {"form not made", "form"},
	ByOperator:       {"ended by the operator", "operator"},
	TimeUp:           {"time is up", "time"},
	Failed:           {"error", ""},
}

func (r Reason) String() string { return reasonNames[r].text }

// Complete reports whether the viewer's response has a proper end. Otherwise its client must be
// able to tell.
func (r Reason) Complete() bool { return r == StreamEnded || r == CodecsChanged }

// label returns the name of r in metrics, or "" if the server does not disconnect viewers for it.
func (r Reason) label() string { return reasonNames[r].label }

// byServer reports whether the server disconnects a viewer for r.
func (r Reason) byServer() bool { return r.label() != "" }

// lagReason returns the reason to drop a viewer that lost frames.
func lagReason(why broadcast.Reason) Reason {
	switch why {
	case broadcast.LagBytes:
		return LagBytes
	case broadcast.LagFrames:
		return LagFrames
	case broadcast.LagTime:
		return LagTime
	}
	return Evicted
}
