package live

import (
	"time"
)

// Terms are limits of one publisher or viewer, in addition to those of Config. The zero value has
// no limits.
type Terms struct {
	MaxViewers int           // of a publisher's stream; 0: no such limit
	MaxTime    time.Duration // of publishing or watching; 0: no limit

	// Ended is called when the publisher or viewer has ended, once, with why and with the bytes of
	// the stream that it sent or got. It must not wait. It is not called for a client that is
	// refused. nil: it is not called at all.
	Ended func(reason string, bytes int64)
}

// End calls Ended.
func (t *Terms) End(reason string, bytes int64) {
	if t.Ended != nil {
		t.Ended(reason, bytes)
	}
}
