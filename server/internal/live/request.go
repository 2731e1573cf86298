package live

import (
	"net/http"
	"time"

	"github.com/millrace-io/millrace/server/internal/live/rendition"
	"github.com/millrace-io/millrace/server/internal/refuse"
)

// A WatchRequest describes what a viewer wants to watch.
type WatchRequest struct {
	Name   string // the stream's name
	Format rendition.Format
	AsIs   bool          // send the publisher's format instead of Format
	Next   bool          // begin at the next keyframe instead of the newest one
	Bound  time.Duration // the longest time that a frame may wait; see ParseBound
	Remote string        // the viewer's address
	Node   string        // the address of the node that sends the request; "" for a viewer
	Push   bool          // the viewer is another server to which this node sends the stream
	Terms  Terms
}

// bounds are the values to which ParseBound rounds down. There are few, because each value in use
// takes a goroutine for each format of a stream.
var bounds = [...]time.Duration{
	time.Second, 500 * time.Millisecond, 200 * time.Millisecond, 100 * time.Millisecond, 0,
}

// ParseBound parses the parameter bound of a viewer's query: the longest time that a frame may wait
// for later frames, so that one write sends them together. The result is rounded down to 1 s, 500
// ms, 200 ms, 100 ms or 0, and the zero value means Config.Latency. The error is a
// [refuse.Refusal].
func ParseBound(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 || d > bounds[0] {
		return 0, refuse.New(http.StatusBadRequest,
			"bad bound=%.80q: want a duration from 0s to %v, such as 200ms", s, bounds[0])
	}
	for _, bound := range bounds {
		if bound <= d {
			return bound, nil
		}
	}
	return 0, nil
}

// pause returns the time from one batch for a viewer to the next, so that no frame waits longer
// than bound. A frame waits for up to c.Latency before it is published.
func (c *Config) pause(bound time.Duration) time.Duration {
	if c.LagTime > 0 {
		bound = min(bound, c.LagTime/2) // a pause must not count as lag
	}
	return max(bound-c.Latency, 0)
}
