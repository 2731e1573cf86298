package live

import (
	"sync/atomic"

	"github.com/millrace-io/millrace/server/internal/live/rendition"
)

// counters counts events in a Hub. The counters are plain atomic numbers, because some of them
// change with each batch. A metrics library would cost too much there.
type counters struct {
	published atomic.Int64 // streams that were published

	returns   atomic.Int64
	takeovers atomic.Int64
	waited    atomic.Int64 // total time that streams waited for publishers, in ended waits, in ns
	bytesIn   atomic.Int64
	pulled    atomic.Int64 // the part of bytesIn that was pulled from other nodes
	toNodes   atomic.Int64 // bytes sent to other nodes; written includes them
	framesIn  atomic.Int64

	forms rendition.Counters
}
