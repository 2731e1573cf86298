package hlslive

import (
	"math"
	"time"

	"github.com/millrace-io/millrace/media/mp4"
)

// A mediaClock assigns dates and durations to the fragments of a stream. It finds the dates by
// adding up the durations. The dates never go back by more than clockStep.
type mediaClock struct {
	line mp4.Timeline
	date time.Time // date of the next fragment
	cut  bool      // the latest fragment is longer than add allows

	// The fields for the comparison of the dates with the wall clock.
	last  time.Time     // when the latest fragment arrived
	since time.Time     // when the comparison began
	seen  time.Duration // total duration of the fragments since then
	least time.Duration // smallest delay of a fragment since then
}

const (
	// clockSlack is how late the fragments may be in comparison to their dates. If all fragments in
	// a time of at least clockSlack are later than that, there are two cases:
	//   - If they have arrived at up to twice their pace, the publisher has paused. The dates are
	//     then moved forward.
	//   - If they have arrived faster, the network has paused. The dates are then right.
	//
	// After a pause of clockSlack without fragments, the comparison with the wall clock starts
	// again.
	clockSlack = time.Second
	// clockTime is the time between two small corrections of the dates, and clockStep limits each
	// of these corrections. They are made if the dates are ahead of the wall clock, or behind it by
	// at most clockSlack.
	clockTime = 2 * time.Second
	clockStep = 5 * time.Millisecond
)

// begin sets the date of the next fragment.
func (c *mediaClock) begin(at time.Time) {
	c.date = at
	c.compare()
}

// compare restarts the comparison between the dates of fragments and the wall clock.
func (c *mediaClock) compare() { c.seen, c.least = 0, math.MaxInt64 }

// add returns the duration and the date of the fragment f. came is when f arrived. begins says that
// f does not continue the previous fragment.
//
// The duration is limited to most. If f is longer than most, the next fragment gets a date that is
// not before came.
func (c *mediaClock) add(f Fragment, begins bool, most time.Duration,
	came time.Time) (lasts time.Duration, at time.Time) {
	if begins {
		c.line = mp4.Timeline{}
	}
	from, to := c.line.Add(f.FragmentInfo)
	lasts = min(to-from, most)
	c.cut = to-from > most
	at = c.date
	c.date = at.Add(lasts)
	if c.cut && came.After(c.date) {
		c.begin(came)
	}
	if came.Sub(c.last) > clockSlack {
		c.compare()
	}
	if c.last = came; c.seen == 0 {
		c.since = came.Add(-lasts)
	}
	c.seen += lasts
	c.least = min(c.least, came.Sub(c.date))
	switch passed := came.Sub(c.since); {
	case c.least > clockSlack && min(c.seen, passed) >= clockSlack && passed >= c.seen/2:
		c.begin(c.date.Add(c.least))
	case c.least <= clockSlack && c.seen >= clockTime && passed >= clockTime/2:
		c.begin(c.date.Add(max(-clockStep, min(c.least, clockStep))))
	}
	return lasts, at
}
