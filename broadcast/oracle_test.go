package broadcast_test

import (
	"io"
	"strings"
	"time"

	"github.com/millrace-io/millrace/broadcast"
)

// The oracle is a slow and simple ring. It keeps every frame of the stream in one slice, counts
// nothing in advance, and searches for everything.
type oracle struct {
	maxBytes, maxFrames int
	latency             time.Duration

	frames    []oFrame  // all frames, from the start
	tail      int       // older frames are evicted
	signalled bool      // signalled since the last check
	due       time.Time // zero if nothing is due
	preamble  oPreamble
	cursors   []*oCursor
	closed    bool
	closedAt  time.Time
	stats     broadcast.Stats
}

type oFrame struct {
	data string
	at   time.Time
	key  bool
	hole bool
	pre  oPreamble
	info any
}

type oPreamble struct {
	data string
	id   int
}

type oCursor struct {
	o                   *oracle
	lagBytes, lagFrames int
	lagTime             time.Duration
	batchBytes          int
	batchFrames         int
	next                int
	joining, starting   bool
	nextKey             bool // the existing keyframe is not accepted
	first               oPreamble
	given               int
	missed              broadcast.Missed
	firstLost           int // valid if missed.Frames > 0
}

func size(frames []oFrame) (n int) {
	for _, f := range frames {
		n += len(f.data)
	}
	return n
}

func (o *oracle) now() time.Time {
	if o.closed {
		return o.closedAt
	}
	return time.Now()
}

// start returns the newest keyframe that is kept with all later frames, or -1.
func (o *oracle) start() int {
	for i := len(o.frames) - 1; i >= o.tail; i-- {
		if o.frames[i].hole {
			return -1
		}
		if o.frames[i].key {
			return i
		}
	}
	return -1
}

func (o *oracle) publish(f oFrame) (tooLarge bool) {
	o.tick()
	f.at = o.now()
	start := o.start()
	f.hole = len(f.data) > o.maxBytes
	if f.hole {
		f.data, f.key, f.info = "", false, nil
	}
	for len(o.frames)-o.tail == o.maxFrames || size(o.frames[o.tail:])+len(f.data) > o.maxBytes {
		o.tail++
		o.stats.Evicted++
	}
	cut := start >= 0 && (start < o.tail || f.hole)
	if cut {
		o.stats.GroupsCut++
	}
	f.pre = o.preamble
	o.frames = append(o.frames, f)
	if f.hole {
		o.stats.Refused++
		return true
	}
	o.stats.PublishedFrames++
	o.stats.PublishedBytes += uint64(len(f.data))
	if f.key {
		o.trim()
	}
	switch {
	case o.latency == 0:
		o.announce()
	case o.due.IsZero():
		o.due = o.now().Add(o.latency)
	}
	return false
}

func (o *oracle) announce() { o.signalled, o.due = true, time.Time{} }

func (o *oracle) flush() {
	if !o.due.IsZero() {
		o.announce()
	}
}

// tick announces due frames.
func (o *oracle) tick() {
	if !o.due.IsZero() && !o.now().Before(o.due) {
		o.announce()
	}
}

// trim moves the readers that are too far behind, and drops frames that no reader needs.
func (o *oracle) trim() {
	need := len(o.frames)
	if s := o.start(); s >= 0 && !o.closed {
		need = s
	}
	for _, c := range o.cursors {
		c.advance()
		if c.canRead(len(o.frames)) {
			need = min(need, c.next)
		}
	}
	o.tail = max(o.tail, need)
}

func (o *oracle) close() {
	if o.closed {
		return
	}
	o.tick()
	o.closedAt, o.closed = time.Now(), true
	o.preamble = oPreamble{}
	o.trim()
	o.announce()
}

func (o *oracle) snapshot() broadcast.Stats {
	s := o.stats
	s.Frames = len(o.frames) - o.tail
	s.Bytes = int64(size(o.frames[o.tail:]))
	s.Start = o.start() >= 0 && !o.closed
	if s.Frames > 0 {
		s.Info = o.frames[len(o.frames)-1].info
	}
	s.Cursors = len(o.cursors)
	s.Watchers = 1
	return s
}

// stuck returns the reason why c cannot read the frame at its position.
func (c *oCursor) stuck() broadcast.Reason {
	switch o := c.o; {
	case c.next < o.tail:
		return broadcast.Evicted
	case c.next < len(o.frames) && o.frames[c.next].hole:
		return broadcast.Refused
	}
	return broadcast.NotMissed
}

func (c *oCursor) late() broadcast.Reason {
	o := c.o
	behind := o.frames[c.next:]
	switch {
	case c.lagBytes > 0 && size(behind) > c.lagBytes:
		return broadcast.LagBytes
	case c.lagFrames > 0 && len(behind) > c.lagFrames:
		return broadcast.LagFrames
	case c.lagTime > 0 && o.now().Sub(behind[0].at) > c.lagTime:
		return broadcast.LagTime
	}
	return broadcast.NotMissed
}

func (c *oCursor) canRead(upto int) bool {
	if c.joining || c.stuck() != broadcast.NotMissed {
		s := c.o.start()
		return s >= c.next && s < upto
	}
	return c.next < upto
}

func (c *oCursor) advance() {
	s := c.o.start()
	if c.joining {
		if s >= 0 && (!c.nextKey || s >= c.next) {
			c.joining, c.starting, c.next = false, true, s
		}
		return
	}
	why := c.stuck()
	if why != broadcast.NotMissed && c.missed.Why == broadcast.NotMissed {
		c.missed.Why = why
	}
	if s <= c.next {
		return
	}
	if why == broadcast.NotMissed {
		why = c.late()
	}
	if why != broadcast.NotMissed {
		c.lose(s, why)
		c.starting, c.first = true, oPreamble{}
	}
}

func (c *oCursor) lose(to int, why broadcast.Reason) {
	if c.missed.Why == broadcast.NotMissed {
		c.missed.Why = why
	}
	if c.missed.Frames == 0 {
		c.firstLost = c.next
	}
	lost := c.o.frames[c.next:to]
	c.missed.Frames += len(lost)
	c.missed.Bytes += int64(size(lost))
	l := &c.o.stats.Lost[c.missed.Why]
	l.Moves++
	l.Frames += uint64(len(lost))
	l.Bytes += uint64(size(lost))
	c.next = to
}

func (c *oCursor) drained() bool { return c.joining || c.next == len(c.o.frames) }

// most returns how many frames the limit in bytes allows at c's position.
func (c *oCursor) most() (n int) {
	for _, f := range c.o.frames[c.next:] {
		if f.hole || n == c.batchFrames || n > 0 &&
			size(c.o.frames[c.next:c.next+n])+len(f.data) > c.batchBytes {
			break
		}
		n++
	}
	return n
}

// take returns the expected result of Take. The oracle knows nothing of the limit in pieces. If
// that limit may have made the result shorter than most, frames is the number of frames that the
// ring returned; otherwise it is 0.
func (c *oCursor) take(frames int) (string, broadcast.Batch, error) {
	o := c.o
	var b broadcast.Batch
	if o.closed && c.drained() {
		return "", b, io.EOF
	}
	c.advance()
	var got strings.Builder
	switch {
	case c.canRead(len(o.frames)):
		if most := c.most(); frames < 1 || frames > most {
			frames = most
		}
		pre := c.first
		if c.starting {
			pre = o.frames[c.next].pre
		}
		if pre.id != 0 && pre.id != c.given {
			got.WriteString(pre.data)
			c.given = pre.id
			b.Preamble = len(pre.data)
		}
		c.first, c.starting = oPreamble{}, false
		for _, f := range o.frames[c.next : c.next+frames] {
			got.WriteString(f.data)
		}
		b.Frames, b.Bytes, b.Info = frames, got.Len(), o.frames[c.next+frames-1].info
		c.next += frames
	case o.closed:
		c.lose(len(o.frames), c.missed.Why)
	default:
		return "", b, nil
	}
	b.Missed, c.missed = c.missed, broadcast.Missed{}
	b.More = o.closed || c.canRead(len(o.frames))
	if o.closed && c.drained() {
		o.trim()
	}
	return got.String(), b, nil
}

func (c *oCursor) lag() (l broadcast.Lag) {
	o := c.o
	if c.joining || c.next == len(o.frames) {
		return l
	}
	first := c.next
	if c.missed.Frames > 0 {
		first = c.firstLost
	}
	l.Frames = len(o.frames) - first
	l.Bytes = int64(size(o.frames[first:]))
	l.Time = o.now().Sub(o.frames[first].at)
	return l
}
