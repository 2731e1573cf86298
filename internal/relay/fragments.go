package relay

import (
	"context"
	"errors"
	"io"
	"math"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/broadcast"
	"github.com/millrace-io/millrace/frame/mp4"
)

// errNotMade ends what is read of a stream's MP4 when that cannot be made.
var errNotMade = errors.New("the stream has nothing, or nothing any more, that MP4 is made of")

// A fragmentReader reads a stream's fragments of MP4, those that viewers of MP4 get, one by one, and goes on with the
// next rendition when the codecs change. HLS and recordings read the stream by it.
type fragmentReader struct {
	stream *stream
	from   *rendition // nil before the first one, and between two
	cursor *broadcast.Cursor

	init  millrace.Chain // the init segment of the fragments that come
	movie *mp4.Movie     // what it says
	early bool           // the first video frame, which is a keyframe, has not come
	lost  bool           // fragments are missing in front of the next one
}

// A fragment is what fragmentReader.next has returned.
type fragment struct {
	mp4.FragmentInfo
	newInit   bool // the init segment is another one than that of the fragment before
	keyNext   bool // the next fragment is known to begin with a keyframe
	early     bool // it is audio before the first video frame, which is a keyframe
	afterLoss bool // fragments are missing in front of this one
}

// next appends the next fragment to dst, which owns it. At the end of the stream it returns io.EOF.
func (r *fragmentReader) next(ctx context.Context, dst *millrace.Chain) (fragment, error) {
	for {
		if r.from == nil {
			r.begin()
		}
		var c millrace.Chain
		b, err := r.cursor.Next(ctx, &c)
		if b.Missed.Why != broadcast.NotMissed {
			r.lost, r.early = true, false
		}
		if b.Frames > 0 {
			return r.take(dst, &c, b), nil
		}
		if err == io.EOF {
			switch why := disconnectReason(r.from.reason.Load()); why {
			case codecsChange:
				r.end()
				continue
			case makingFailed:
				return fragment{}, errNotMade
			}
		}
		if err != nil {
			return fragment{}, err
		}
	}
}

// begin finds the rendition of MP4, or has it made.
func (r *fragmentReader) begin() {
	s := r.stream
	s.mu.Lock()
	defer s.mu.Unlock()
	r.from = s.rendition(formatMP4)
	r.from.readers++
	r.early = !s.noVideo.Load() // otherwise it begins with audio between video frames
	r.cursor = r.from.source(broadcast.BatchFrames(1))
}

// end leaves the rendition.
func (r *fragmentReader) end() {
	if r.from == nil {
		return
	}
	r.cursor.Close()
	r.stream.leave(r.from)
	r.from = nil
}

// release gives back what r holds.
func (r *fragmentReader) release() {
	r.end()
	r.init.Release()
}

// take moves the fragment of a batch, c, to dst.
func (r *fragmentReader) take(dst, c *millrace.Chain, b broadcast.Batch) fragment {
	info := b.Info.(*fragmentInfo)
	f := fragment{FragmentInfo: info.FragmentInfo, keyNext: info.keyNext, afterLoss: r.lost}
	if b.Preamble > 0 { // also after a loss
		r.init.Release()
		c.Cut(&r.init, b.Preamble)
		f.newInit = info.movie != r.movie
		r.movie = info.movie
	}
	r.lost = false
	r.early = r.early && f.Pictures == 0
	f.early = r.early
	dst.Merge(c)
	return f
}

// A mediaClock tells when the fragments of a stream were live, and how long each one lasts. Its dates follow from the
// durations. They never go back by more than clockStep.
type mediaClock struct {
	line mp4.Timeline
	date time.Time // when the next fragment begins
	cut  bool      // the latest fragment adds more than add was to return

	last  time.Time     // the latest fragment came
	since time.Time     // the comparison with the wall clock began
	seen  time.Duration // of the stream since then
	least time.Duration // how late the fragments have come since then, at least
}

const (
	// clockSlack is how late all fragments come for as long, before the clock goes on from where
	// they are: the publisher has waited. If they come twice as fast as they last, the network has
	// waited. A pause of clockSlack begins the comparison anew.
	clockSlack = time.Second
	// clockStep is how far the clock is set in a clockTime when it is wrong by less, or fast.
	clockTime = 2 * time.Second
	clockStep = 5 * time.Millisecond
)

// begin says that the next fragment was live at a time.
func (c *mediaClock) begin(at time.Time) {
	c.date = at
	c.compare()
}

// compare begins to compare date with the wall clock.
func (c *mediaClock) compare() { c.seen, c.least = 0, math.MaxInt64 }

// add returns how much f adds to the stream, at most most, and when that was live. begins says that
// f does not continue the fragment before. came is when f came. After a fragment that adds more
// than most, the next one was live at came.
func (c *mediaClock) add(f fragment, begins bool, most time.Duration, came time.Time) (lasts time.Duration, at time.Time) {
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
