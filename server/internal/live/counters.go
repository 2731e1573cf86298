package live

import (
	"sync/atomic"

	"github.com/millrace-io/millrace/server/internal/live/rendition"
)

// counters counts events in a Hub. It uses plain atomic numbers, because a metrics library would
// cost too much for the counters that change with each batch.
type counters struct {
	published atomic.Int64

	returns   atomic.Int64
	takeovers atomic.Int64
	waited    atomic.Int64 // total duration of all pauses that have ended, in ns
	bytesIn   atomic.Int64
	pulled    atomic.Int64 // the part of bytesIn that was pulled from other nodes
	toNodes   atomic.Int64 // bytes sent to other nodes
	framesIn  atomic.Int64

	forms rendition.Counters
}
