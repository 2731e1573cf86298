package relay

import (
	"context"
	"net/http"
	"time"

	"github.com/millrace-io/millrace/server/internal/refuse"
	"github.com/millrace-io/millrace/server/internal/relay/fanout"
)

// Terms are what a publisher or viewer is allowed beside the limits of Config. The zero value says nothing.
type Terms struct {
	MaxViewers int           // of a publisher's stream; 0: no limit of its own
	MaxTime    time.Duration // of publishing or watching; 0: no limit

	// Ended is called when the publisher or viewer has ended, once, with why and with the bytes of the stream that it sent
	// or got. It must not wait. It is not called for a client that is refused. nil: it is not called at all.
	Ended func(reason string, bytes int64)
}

// End calls Ended.
func (t *Terms) End(reason string, bytes int64) {
	if t.Ended != nil {
		t.Ended(reason, bytes)
	}
}

// errTimeUp ends a publisher whose time is over.
var errTimeUp = refuse.New(http.StatusForbidden, "the time is up that this publisher was allowed")

// keepTo has the publisher keep to its terms. It is called once, by what has opened it.
func (p *Publisher) keepTo(t Terms) {
	p.terms = t
	p.s.mu.Lock()
	p.s.maxViewers = t.MaxViewers
	p.s.mu.Unlock()
	if t.MaxTime > 0 {
		timer := time.AfterFunc(t.MaxTime, func() { p.cancel(errTimeUp) })
		context.AfterFunc(p.ctx, func() { timer.Stop() })
	}
}

// keepTo has the viewer, which is served, end when its time is up.
func (v *viewer) keepTo(t *Terms) {
	if t.MaxTime > 0 {
		v.timeUp = time.AfterFunc(t.MaxTime, func() { v.transport.End(fanout.TimeUp) })
	}
}
