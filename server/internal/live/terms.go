package live

import (
	"time"
)

// Terms are limits that apply to one publisher or viewer, in addition to the limits in Config. The
// zero value sets no limits.
type Terms struct {
	MaxViewers int           // for the publisher's stream; 0: no limit in addition to Config
	MaxTime    time.Duration // for publishing or watching; 0: no limit
	Push       []string      // URLs to which the publisher's stream is sent; see Config.Push

	// Ended is called once, after the publisher or viewer has ended. bytes is the number of bytes
	// of the stream that were received from the publisher or sent to the viewer. Ended is not
	// called for a refused client. It must not block, and may be nil.
	Ended func(reason string, bytes int64)
}

// End calls t.Ended with the given arguments, unless t.Ended is nil.
func (t *Terms) End(reason string, bytes int64) {
	if t.Ended != nil {
		t.Ended(reason, bytes)
	}
}
