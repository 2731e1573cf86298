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
	MaxTag     int   // the longest data of an FLV tag, in bytes

	// How long a frame may wait to be sent together with others; 0: not at all.
	Latency time.Duration

	// How far behind a viewer may be; the zero value of a field: as far as is kept.
	Lag broadcast.Lag
	// Disconnect a viewer that is further behind, instead of moving it to the newest keyframe.
	Drop  bool
	Stall time.Duration // disconnect a viewer that takes nothing for this long

	Counters *Counters
}

// Counters count events of all streams of a server.
type Counters struct {
	GroupsCut atomic.Int64 // GOPs longer than the kept frames
	// NAL units and video frames that decoders fail at.
	Damaged atomic.Int64
	Lost    [broadcast.Refused + 1]atomic.Int64 // frames that viewers were moved past, by reason
	Fanout  fanout.Counters
}
