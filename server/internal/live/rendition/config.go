package rendition

import (
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace/broadcast"
	"github.com/millrace-io/millrace/server/internal/live/fanout"
)

// A Config applies to all streams of a server.
type Config struct {
	KeepBytes  int64 // bytes that each rendition keeps for late viewers
	KeepFrames int   // frames that each rendition keeps
	MaxTag     int   // maximum size of an FLV tag's data, in bytes

	// How long a frame may wait so that it can be sent together with later frames. If Latency is 0,
	// frames do not wait.
	Latency time.Duration

	// Maximum lag of a viewer behind the newest frame. If a field of Lag is 0, only KeepBytes and
	// KeepFrames limit the lag.
	Lag broadcast.Lag
	// If Drop is true, a viewer that exceeds Lag is disconnected. If it is false, the viewer
	// continues at the newest keyframe.
	Drop  bool
	Stall time.Duration // a viewer that accepts no data for this long is disconnected

	Counters *Counters
}

// Counters count events of all streams of a server.
type Counters struct {
	GroupsCut atomic.Int64 // GOPs that were too long to be kept completely
	// Number of NAL units and video frames that were left out because decoders fail on them.
	Damaged atomic.Int64
	Lost    [broadcast.Refused + 1]atomic.Int64 // frames that viewers have lost, by reason
	Fanout  fanout.Counters
}
