package relay

import "github.com/millrace-io/millrace/broadcast"

// A disconnectReason says why a viewer is no longer served. The first one counts.
type disconnectReason int32

const (
	connected    disconnectReason = iota
	hungUp                        // the viewer closed its connection
	streamEnded                   // the viewer got all of the stream
	codecsChange                  // the stream goes on with codecs that an MP4 file cannot follow; the viewer got all up to there
	lagBytes                      // dropped by policy: further behind than its allowance
	lagFrames                     // the same
	lagTime                       // the same
	evicted                       // dropped by policy: what it had still to get is no longer kept
	stalled                       // dropped: it took nothing for longer than the stall timeout
	drained                       // dropped: the time to drain was over
	makingFailed                  // dropped: its rendition could not be made any more
	failed                        // the connection failed, or the server did

	disconnectReasons // how many there are
)

var reasonTexts = [disconnectReasons]string{
	"connected", "viewer left", "stream ended", "codecs changed", "behind by bytes", "behind by frames", "behind by time",
	"behind what is kept", "stalled", "drain timeout", "MP4 failed", "error",
}

func (r disconnectReason) String() string { return reasonTexts[r] }

// byServer reports whether the server disconnected the viewer.
func (r disconnectReason) byServer() bool { return r >= lagBytes && r <= makingFailed }

// complete reports whether what the viewer got has a proper end. Otherwise its client must be able to tell.
func (r disconnectReason) complete() bool { return r == streamEnded || r == codecsChange }

var reasonLabels = [disconnectReasons]string{
	lagBytes: "lag_bytes", lagFrames: "lag_frames", lagTime: "lag_time", evicted: "evicted",
	stalled: "stalled", drained: "drain", makingFailed: "mp4",
}

// label is the name of r in metrics.
func (r disconnectReason) label() string {
	if s := reasonLabels[r]; s != "" {
		return s
	}
	return "other"
}

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
