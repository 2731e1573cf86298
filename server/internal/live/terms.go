package live

import (
	"time"
)

// Terms are limits that apply to one publisher or viewer, in addition to the limits in Config. The
// zero value sets no limits.
type Terms struct {
	MaxViewers int           // of a publisher's stream; 0: no further limit
	MaxTime    time.Duration // for publishing or watching; 0: no limit

	// Ended is called once, when the publisher or viewer has ended. Its arguments are the reason,
	// and the number of bytes of the stream that were sent or received. It must not block. It is
	// not called for a client that is refused. It may be nil.
	Ended func(reason string, bytes int64)
}

// End calls Ended, if it is set.
func (t *Terms) End(reason string, bytes int64) {
	if t.Ended != nil {
		t.Ended(reason, bytes)
	}
}
