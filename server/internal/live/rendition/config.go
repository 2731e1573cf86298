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

	Latency time.Duration

	// Maximum lag of a viewer behind the newest frame. If a field of Lag is 0, only KeepBytes and
	// KeepFrames limit the lag.
	Lag   broadcast.Lag
	Drop  bool
	Stall time.Duration // a viewer that accepts no data for this long is disconnected

	Counters *Counters
}

// Counters count events of all streams of a server.
type Counters struct {
	GroupsCut atomic.Int64 // GOPs that were too long to be kept completely
	Damaged   atomic.Int64
	Unstarted atomic.Int64                        // see Reporter.Unstarted of package convert
	Lost      [broadcast.Refused + 1]atomic.Int64 // frames that viewers have lost, by reason
	Fanout    fanout.Counters
}
