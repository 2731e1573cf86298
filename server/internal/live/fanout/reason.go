package fanout

import "github.com/millrace-io/millrace/broadcast"

// A Reason is the reason why a viewer is no longer served. If several reasons apply, the first one
// counts.
type Reason int32

const (
	Connected     Reason = iota // the viewer is served
	HungUp                      // the viewer closed its connection
	StreamEnded                 // the viewer got all of the stream
	CodecsChanged               // the viewer got everything up to a change of codecs
	LagBytes                    // dropped by policy: the lag exceeds the allowance in bytes
	LagFrames                   // dropped by policy: the lag exceeds the allowance in frames
	LagTime                     // dropped by policy: the lag exceeds the allowance in time
	Evicted                     // dropped by policy: the ring no longer has the next frame
	// dropped: the client accepted no data within the stall timeout, did not read its replies, or
	// took too long to send a message
	Stalled
	Drained          // dropped: the time to drain is over
	Crowded          // dropped: memory was short, and the viewer was behind
	Moved            // dropped: the viewer is another node, and the stream has another owner
	ConversionFailed // dropped: the viewer's format of the stream can no longer be made
	ByOperator       // dropped: the operator ended the viewer
	TimeUp           // dropped: the viewer's allowed time is over
	Failed           // the connection or the server failed

	reasons
)

// reasonNames has the names of each reason: text is for the log, and label is for metrics. label is
// empty if the server does not disconnect viewers for this reason.
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

// Complete reports whether a response that ends for the Reason r is complete. If Complete returns
// false, the response must end in a way that tells the client that data is missing.
func (r Reason) Complete() bool { return r == StreamEnded || r == CodecsChanged }

func (r Reason) label() string { return reasonNames[r].label }

// byServer reports whether r is a reason for the server to disconnect a viewer.
func (r Reason) byServer() bool { return r.label() != "" }

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
