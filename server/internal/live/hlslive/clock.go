package hlslive

import (
	"math"
	"time"

	"github.com/millrace-io/millrace/media/mp4"
)

// A mediaClock dates the fragments of a stream, and says how long each one lasts. The dates follow
// from the durations. They never go back by more than clockStep.
type mediaClock struct {
	line mp4.Timeline
	date time.Time // of the next fragment
	cut  bool      // the latest fragment is longer than add was to return

	// The comparison with the wall clock.
	last  time.Time     // when the latest fragment came
	since time.Time     // when the comparison began
	seen  time.Duration // duration of the fragments since then
	least time.Duration // smallest delay of a fragment since then
}

const (
	// clockSlack: if all fragments of a clockSlack are later than this, the publisher has paused,
	// and the clock is set. If they come at twice their pace, the network has paused, and the clock
	// is right. A pause of clockSlack begins the comparison anew.
	clockSlack = time.Second
	// clockStep is the correction in each clockTime of a clock that is wrong by less than
	// clockSlack, or fast.
	clockTime = 2 * time.Second
	clockStep = 5 * time.Millisecond
)

// begin sets the date of the next fragment.
func (c *mediaClock) begin(at time.Time) {
	c.date = at
	c.compare()
}

// compare begins to compare the date with the wall clock.
func (c *mediaClock) compare() { c.seen, c.least = 0, math.MaxInt64 }

// add returns the duration of f, limited to most, and its date. begins means that f does not
// continue the fragment before. came is when f came. After a fragment that is longer than most, the
// date of the next one is came.
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
