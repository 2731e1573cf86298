package live

import (
	"sync/atomic"

	"github.com/millrace-io/millrace/server/internal/live/rendition"
)

// counters counts events in a Hub. They are plain atomic numbers, because some change with each
// batch, and a metrics library would cost too much there.
type counters struct {
	published atomic.Int64 // streams

	returns   atomic.Int64
	takeovers atomic.Int64
	waited    atomic.Int64 // ns that streams have waited for publishers, in waits that are over
	bytesIn   atomic.Int64
	pulled    atomic.Int64 // bytes, of these
	toNodes   atomic.Int64 // bytes sent to other nodes; written includes them
	framesIn  atomic.Int64

	forms rendition.Counters
}
