package hlslive

import (
	"math"
	"time"

	"github.com/millrace-io/millrace/media/mp4"
)

// A mediaClock assigns dates and durations to the fragments of a stream. Each date is the end of
// the previous fragment, except for corrections. Dates never go back by more than clockStep.
type mediaClock struct {
	line mp4.Timeline
	date time.Time // date of the next fragment
	cut  bool      // the latest fragment exceeded maxDuration

	// State of the comparison between dates and the wall clock.
	last  time.Time     // when the latest fragment arrived
	since time.Time     // when the comparison began
	seen  time.Duration // total duration of the fragments since then
	least time.Duration // smallest delay of a fragment since then
}

const (
	// A fragment is late if it arrives more than clockSlack after the date of its end in the
	// playlist. If all fragments are late during a period of at least clockSlack, the speed at
	// which they arrive shows the cause:
	//   - If they arrive at up to twice the speed of playback, the publisher has paused. The date
	//     of the next fragment is then moved forward.
	//   - If they arrive faster, the network has paused, and the stream catches up. The dates do
	//     not change.
	//
	// If no fragment arrives for longer than clockSlack, a new period begins.
	clockSlack = time.Second
	// clockTime is the time between two small corrections of the dates in a playlist. Each
	// correction moves the dates by up to clockStep towards the wall clock. The corrections are
	// needed because the publisher's clock drifts. While all fragments are late, the dates are not
	// corrected.
	clockTime = 2 * time.Second
	clockStep = 5 * time.Millisecond
)

func (c *mediaClock) begin(date time.Time) {
	c.date = date
	c.restartComparison()
}

// restartComparison restarts the comparison of the dates with the wall clock.
func (c *mediaClock) restartComparison() { c.seen, c.least = 0, math.MaxInt64 }

// add returns the duration and the date of f in the playlist. arrivalTime is the time when f
// arrived. The caller sets restart if f does not continue the previous fragment.
//
// The duration is at most maxDuration. If add shortens f, the date of the next fragment is the end
// of the shortened f, but not earlier than arrivalTime.
func (c *mediaClock) add(f Fragment, restart bool, maxDuration time.Duration,
	arrivalTime time.Time) (duration time.Duration, date time.Time) {
	if restart {
		c.line = mp4.Timeline{}
	}
	from, to := c.line.Add(f.FragmentInfo)
	duration = min(to-from, maxDuration)
	c.cut = to-from > maxDuration
	date = c.date
	c.date = date.Add(duration)
	if c.cut && arrivalTime.After(c.date) {
		c.begin(arrivalTime)
	}
	if arrivalTime.Sub(c.last) > clockSlack {
		c.restartComparison()
	}
	if c.last = arrivalTime; c.seen == 0 {
		c.since = arrivalTime.Add(-duration)
	}
	c.seen += duration
	c.least = min(c.least, arrivalTime.Sub(c.date))
	switch passed := arrivalTime.Sub(c.since); {
	case c.least > clockSlack && min(c.seen, passed) >= clockSlack && passed >= c.seen/2:
		c.begin(c.date.Add(c.least))
	case c.least <= clockSlack && c.seen >= clockTime && passed >= clockTime/2:
		c.begin(c.date.Add(max(-clockStep, min(c.least, clockStep))))
	}
	return duration, date
}
