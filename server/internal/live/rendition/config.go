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
	MaxTag     int   // limits the data of an FLV tag, in bytes

	// How long a frame may wait so that it can be sent together with others. If it is 0, the frame
	// does not wait.
	Latency time.Duration

	// How far behind the newest frame a viewer may be. If a field is 0, the viewer may be as far
	// behind as frames are kept.
	Lag broadcast.Lag
	// A viewer that exceeds Lag is disconnected instead of moved to the newest keyframe.
	Drop  bool
	Stall time.Duration // a viewer that accepts no data for this long is disconnected

	Counters *Counters
}

// Counters count events of all streams of a server.
type Counters struct {
	GroupsCut atomic.Int64 // GOPs that were too long to be kept whole
	// Number of NAL units and video frames that were left out because decoders fail on them.
	Damaged atomic.Int64
	Lost    [broadcast.Refused + 1]atomic.Int64 // frames that viewers have lost, by reason
	Fanout  fanout.Counters
}
