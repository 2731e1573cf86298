package live

import (
	"sync/atomic"

	"github.com/millrace-io/millrace/server/internal/live/rendition"
)

// counters counts what happens in a Hub. They are plain atomic numbers: what is done for every batch does not go
// through a metrics library.
type counters struct {
	published atomic.Int64 // streams

	returns   atomic.Int64
	takeovers atomic.Int64
	waited    atomic.Int64 // ns that streams have waited for publishers, in waits that are over
	bytesIn   atomic.Int64
	pulled    atomic.Int64 // bytes, of these
	toNodes   atomic.Int64 // bytes, of those that are written
	framesIn  atomic.Int64

	forms rendition.Counters
}
