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

	// Fields to compare the dates of fragments with the wall clock. The date of the next fragment
	// is corrected if the dates differ from the wall clock.
	last  time.Time     // when the latest fragment arrived
	since time.Time     // when the comparison began
	seen  time.Duration // total duration of the fragments since then
	least time.Duration // smallest delay of a fragment since then
}

const (
	// A fragment is late if it arrives more than clockSlack after its date in the playlist. If all
	// fragments in a period of at least clockSlack are late, either the publisher or the network
	// has paused:
	//   - If the fragments of the period arrived at up to twice the speed of playback, the
	//     publisher has paused. The date of the next fragment is then moved forward.
	//   - If they arrived faster, the network has paused. The dates are then right.
	//
	// If no fragment arrives for more than clockSlack, a new period begins.
	clockSlack = time.Second
	// clockTime is the time between two small corrections of the dates in a playlist. clockStep is
	// the maximum of each correction. The corrections are needed because the publisher's clock and
	// the wall clock drift apart. No small correction is made while all fragments are late (see
	// clockSlack).
	clockTime = 2 * time.Second
	clockStep = 5 * time.Millisecond
)

// begin sets the date of the next fragment.
func (c *mediaClock) begin(at time.Time) {
	c.date = at
	c.compare()
}

// compare restarts the measurement of how late fragments arrive. It forgets all earlier fragments.
func (c *mediaClock) compare() { c.seen, c.least = 0, math.MaxInt64 }

// add returns the duration of the fragment f (lasts) and its date in the playlist (at). begins is
// true if f does not continue the previous fragment. came is the time when f arrived. most is the
// maximum of the returned duration.
//
// If f is longer than most, add returns most as the duration. The date of the next fragment is then
// at+most or came, the later of the two.
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
