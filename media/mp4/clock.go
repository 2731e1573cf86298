package mp4

const (
	// If a frame is behind the newest frame of its track by at most maxBack, the timestamps
	// continue. Decoding times should not go back at all. But encoders round them, and some
	// encoders correct their clock by a few frames.
	maxBack = 500 // ms

	// If a frame is ahead of the time at which it is due by more than maxLeap, its timestamp is a
	// leap. The frame waits until other frames confirm the leap.
	maxLeap = 300 // ms

	// If the time of a frame's arrival is not known, a leap ahead by at most maxPause does not
	// begin a new round; see clock.
	maxPause = 60_000 // ms

	// leapLasts is how long the frames after a leap must continue from it before the clock accepts
	// the leap. Runs of stray frames are shorter.
	leapLasts = 1000 // ms

	// confirming is the minimum number of consecutive frames that confirm a leap.
	confirming = 3

	// maxHeld limits the number of a track's frames that wait for a time. It is more than leapLasts
	// at 60 frames a second. At the limit, the clock accepts the newest consecutive frames.
	maxHeld = 64

	// Two frames of a track are consecutive if the second is at most maxStep after the first.
	maxStep = 10_000 // ms

	// maxAlone is how far audio may be ahead of video before it is sent without waiting for video.
	maxAlone = 65 // ms

	// If two video frames are more than slowStep apart, as with less than 23 frames a second, the
	// video counts as slow for the next slowFrames frames. Audio then does not wait for slow video.
	slowStep   = 45 // ms
	slowFrames = 128
)

// A clock converts FLV's 32-bit milliseconds to the stream's time, which does not wrap around, go
// back or leap. A leap is a timestamp that is too far from the time at which the frame is due: more
// than maxLeap after it, or more than maxBack before it.
//
// A frame with a leap is held (it gets no time yet) until the next frames explain the leap. If
// these continue from the frames before the leap, the held frames are strays, and get times between
// their neighbours. If they continue from the leap for leapLasts, the clock accepts the leap. It
// accepts a leap ahead earlier if that much time has really passed, by the wall clock or by the
// frames of the other track. While a frame is held, the frame before it waits, too, because its
// duration is not known yet.
//
// A round is a range of the stream with one offset between FLV's time and the stream's time. A new
// round begins when a publisher starts over, or leaps further than time has passed. It follows the
// previous round without a pause. Each track detects the new round from its own frames, because the
// timestamps of audio and video may be any distance apart. One track may therefore begin a round
// before the other. Audio and video have the same offset in a round, so that they stay synchronous.
type clock struct {
	first        int64 // the stream's time of the first frame
	early        int64 // maximum of a frame's time in the stream minus its arrival time
	video, audio pace
}

// pace is the state of one track.
type pace struct {
	round int    // number of the current round, from 1; 0 before the first frame
	last  uint32 // FLV's time of the newest frame of the round
	now   int64  // the stream's time of that frame
	wall  int64  // arrival time of the newest frame with a time, in ms
	step  int64  // time between the newest two frames, in ms
	slow  int    // number of frames for which video still counts as slow
	gone  int64  // time from the track's first frame to its newest
	met   int64  // reach of the other track when the newest frame of this one arrived

	fresh bool      // the sequence header has changed: the publisher may have started over
	sole  bool      // only one frame has arrived; it is also in held, in case it is a stray
	held  []arrival // frames without a time in the stream, oldest first
}

// An arrival is a frame that has arrived: its FLV time in ms, and two measures of the time of
// arrival in ms, the wall clock and the reach of the other track.
type arrival struct {
	ts        uint32
	wall, met int64
}

// passed returns the duration of the stream so far, in ms.
func (c *clock) passed() int64 { return max(c.video.now, c.audio.now) - c.first }

// other returns the other track.
func (c *clock) other(p *pace) *pace {
	if p == &c.audio {
		return &c.video
	}
	return &c.audio
}

// reach returns the time from the track's first frame to its newest, including the held frames.
func (p *pace) reach() int64 { return p.gone + int64(len(p.held))*min(p.step, maxBack) }

// before returns the stream's time of the newest frame of the track at the arrival of a.
func (p *pace) before(a arrival) int64 { return p.now + a.met - p.reach() }

// waited returns how far the other track has advanced since the newest frame of p.
func (c *clock) waited(p *pace) int64 { return max(c.other(p).reach()-p.met, 0) }

// restart is called when the publisher may have started over. The clock then accepts a leap as soon
// as a few consecutive frames confirm it.
func (c *clock) restart() { c.video.fresh, c.audio.fresh = true, true }

// add processes the newest frame of track p. The arguments are in ms: the frame's FLV time ts, the
// duration of the frame before it, and the time of its arrival, or 0 if that is not known. add
// appends to times the stream's times of all frames with a newly known time, oldest first.
func (c *clock) add(times []int64, p *pace, ts uint32, length, wall int64) []int64 {
	p.held = append(p.held, arrival{ts, wall, c.other(p).reach()})
	n := len(p.held)
	switch {
	case p.round == 0:
		c.at(p, p.held[0], 0, length)
		p.sole = true
		return times
	case c.fits(p, n-1, length):
		return c.settle(times, p, c.fitting(p, length), length)
	}
	row := p.row()
	if n < maxHeld && !c.confirmed(p, row, length) {
		return times
	}
	return c.settle(times, p, n-row, length)
}

// flush appends the times of all held frames of track p. Frames that do not continue the stream are
// strays. If full is set, because no more frames can be held, the newest consecutive frames are not
// strays in any case.
func (c *clock) flush(times []int64, p *pace, length int64, full bool) []int64 {
	switch n, row := len(p.held), p.row(); {
	case n == 0:
		return times
	case p.sole && n == 1:
		p.sole, p.held = false, p.held[:0]
		return append(times, p.now)
	case row > 1 && (full || p.sole):
		return c.settle(times, p, n-row, length)
	default:
		return c.settle(times, p, c.fitting(p, length), length)
	}
}

// fitting returns the index of the first of the newest held frames that all continue the stream.
func (c *clock) fitting(p *pace, length int64) int {
	head := len(p.held)
	for head > 0 && !(p.sole && head == 1) && c.fits(p, head-1, length) {
		head--
	}
	return head
}

// due returns the stream's time at which the frame a is expected, after n frames without a time.
func (p *pace) due(a arrival, n int, length int64) int64 {
	return p.now + max(a.met-p.met, int64(n)*length)
}

// since returns the time from the newest frame of p to a, measured by the wall clock or by the
// other track.
func (p *pace) since(a arrival) int64 {
	since := max(a.met-p.met, 0)
	if a.wall != 0 && p.wall != 0 {
		since = max(since, a.wall-p.wall)
	}
	return since
}

// earliest returns the earliest time in the stream that a can have if its round is that of p. The
// frame a follows n frames without a time.
func (p *pace) earliest(a arrival, n int, length int64) int64 {
	late := int64(n) * length
	if a.wall != 0 && p.wall != 0 {
		late = min(late, a.wall-p.wall)
	}
	return p.now + late - maxBack
}

// latest returns the latest time in the stream that a can have if its round is that of p. It
// depends on the time that has passed, as far as that is known.
func (c *clock) latest(p *pace, a arrival, n int, length int64) int64 {
	latest := p.now + max(p.step+int64(n)*length, p.since(a))
	if other := c.other(p); other.round == p.round {
		latest = max(latest, other.before(a))
	}
	return latest + maxLeap
}

// fits reports whether the held frame i continues from the newest frame of its track. If the other
// track has begun a later round, the frame may also continue that round. A video frame that is late
// fits if that much time has passed. An audio frame does not, because audio may arrive in bursts.
func (c *clock) fits(p *pace, i int, length int64) bool {
	a := p.held[i]
	own, late := p.continued(a.ts), p.step+int64(i)*length
	if p == &c.video {
		late = max(late, p.since(a))
	}
	if p.earliest(a, i, length) <= own && own <= p.now+late+maxLeap {
		return true
	}
	other := c.other(p)
	return p.round < other.round && distance(other.continued(a.ts), p.due(a, i, length)) <= maxLeap
}

// confirmed reports whether the newest held frames confirm a leap. The argument row is the number
// of these frames that are consecutive.
func (c *clock) confirmed(p *pace, row int, length int64) bool {
	n := len(p.held)
	first, last := p.held[n-row], p.held[n-1]
	switch own := p.continued(first.ts); {
	case row < confirming:
		return false
	case p.sole, p.fresh, own > p.now && own <= c.latest(p, first, 0, length):
		return true
	}
	return int64(int32(last.ts-first.ts)) >= leapLasts
}

// row returns how many of the newest held frames are consecutive.
func (p *pace) row() int {
	n := len(p.held)
	row := min(n, 1)
	for ; row < n; row++ {
		step := int64(int32(p.held[n-row].ts - p.held[n-row-1].ts))
		if p.sole && row == n-1 || step < -maxBack || step > maxStep {
			break
		}
	}
	return row
}

// settle appends the times of all held frames. The frames held[head:] continue the stream, and the
// frames before them are strays.
func (c *clock) settle(times []int64, p *pace, head int, length int64) []int64 {
	held := p.held
	strays := held[:head]
	if p.sole {
		strays = strays[1:]
		if len(held) > head+1 && firstIsStray(held[0].ts, held[head].ts, held[head+1].ts) {
			p.round = 0
			to := c.at(p, held[head], 0, length)
			for i := head; i > 0; i-- {
				times = append(times, max(to-int64(i)*length, 0))
			}
			times = append(times, to)
			head++
			strays = nil
		} else {
			times = append(times, p.now)
		}
	}
	from, usual := p.now, max(p.step, length)
	to := from + usual*int64(len(strays)+1)
	if head < len(held) {
		to = c.at(p, held[head], len(strays), length)
	}
	step := min(max(to-from, 0)/int64(len(strays)+1), usual)
	for i := range strays {
		times = append(times, from+step*int64(i+1))
	}
	for i := head; i < len(held); i++ {
		if i > head {
			from = p.now
			to = c.at(p, held[i], 0, length)
		}
		times = append(times, to)
		p.noteStep((to - from) / int64(len(strays)+1))
		strays = nil
	}
	if n := step * int64(len(strays)); n > 0 { // the next frames continue from the last stray
		p.now, p.last = p.now+n, p.last+uint32(n)
	}
	p.sole, p.fresh, p.held = false, false, held[:0]
	return times
}

// firstIsStray reports whether the first frame of a track is a stray, because only the two frames
// after it are consecutive.
func firstIsStray(first, second, third uint32) bool {
	step, next := int32(second-first), int32(third-second)
	return step < 0 || int64(step) > 2*int64(next)
}

// at returns the stream's time of a frame of track p. The frame comes after n strays. The time may
// be before p.now by up to maxBack.
//
// If the other track has begun a new round, the frame may be a late one of the old round, or the
// first one of the new round. It is in the round that gives it the time nearer to the time at which
// it is due.
func (c *clock) at(p *pace, a arrival, n int, length int64) int64 {
	other := c.other(p)
	begins := p.round == 0
	if begins && other.round == 0 {
		p.round, p.last, p.now, p.wall = 1, a.ts, int64(a.ts), a.wall
		c.first, c.early = p.now, p.now-a.wall
		return p.now
	}
	if begins {
		p.now, p.met = other.now, a.met
	}
	due := p.due(a, n, length)
	latest := c.latest(p, a, n, length)
	if a.wall == 0 {
		latest = max(latest, p.now+p.since(a)+maxPause)
	} else {
		latest = max(latest, a.wall+c.early+maxLeap)
	}
	own, theirs := p.continued(a.ts), other.continued(a.ts)
	begun := !begins && p.round == other.round
	continues := !begins && p.earliest(a, n, length) <= own && own <= latest
	joins := p.round < other.round && distance(theirs, due) <= maxPause
	p.wall, p.met = a.wall, a.met
	var at int64
	switch {
	case continues && !(joins && distance(theirs, due) < distance(own, due)):
		if own < p.now {
			return own
		}
		at = own
	case joins:
		at = theirs
		if overlap := p.now + length - at; !begins && overlap > 0 {
			// The other track ended earlier in the old round. Delay the new round of both tracks by
			// the difference.
			at += overlap
			other.now += overlap
		}
		p.round = other.round
	case begun && distance(own, other.before(a)) <= maxLeap && p.gone < leapLasts:
		// The other track shows that the first frames of this track were strays. Both tracks
		// continue from here.
		at = p.now + int64(n+1)*length
		other.now += at - own
	default:
		// The round begins directly after the last frame. If the other track is far ahead, the
		// round begins near its newest frame instead.
		at = max(p.now+int64(n+1)*length, due-maxBack)
		if len(other.held) > 0 && !other.sole {
			// The other track has a leap, too. The round begins at the end of the track that ends
			// later.
			overlap := other.now + other.step + 1 - (at + int64(int32(other.held[0].ts-a.ts)))
			at += max(0, min(overlap, leapLasts))
		}
		p.round = max(p.round, other.round) + 1
	}
	if !begins {
		p.gone += at - p.now
	}
	p.last, p.now = a.ts, at
	c.early = max(c.early, at-a.wall)
	return at
}

// continued returns the stream's time of ts if its round is that of p.
func (p *pace) continued(ts uint32) int64 { return p.now + int64(int32(ts-p.last)) }

// noteStep records the time between two frames.
func (p *pace) noteStep(step int64) {
	p.step = max(step, 0)
	if p.slow = max(p.slow-1, 0); step > slowStep {
		p.slow = slowFrames
	}
}

func distance(a, b int64) int64 { return max(a-b, b-a) }
