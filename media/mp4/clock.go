package mp4

const (
	// If a frame is before the newest frame of its track by at most maxBack, the timestamps
	// continue without a leap. Decoding times should not go back at all. But encoders round them,
	// and some encoders correct their clock by a few frames.
	maxBack = 500 // ms

	// If a frame is ahead of the expected time by more than maxLeap, its timestamp is a leap. The
	// frame waits until later frames confirm the leap.
	maxLeap = 300 // ms

	// maxPause is the longest pause in the stream that the clock accepts if it does not know when
	// the frames arrived. If the timestamps leap ahead further than maxPause, the stream continues
	// without a pause.
	maxPause = 60_000 // ms

	// A leap is a timestamp that is far from the expected time. The clock accepts a leap when later
	// frames have continued from the leap's timestamp for leapLasts. If only a few frames have
	// wrong timestamps, they span less time than leapLasts.
	leapLasts = 1000 // ms

	// confirming is the minimum number of consecutive frames that confirm a leap of the timestamps.
	confirming = 3

	// maxHeld is the maximum number of frames of one track that wait until later frames confirm
	// their timestamps. If maxHeld frames wait, the clock uses the timestamps of the newest
	// consecutive frames without confirmation. A confirmation needs frames of one second
	// (leapLasts), and even at 60 frames a second, 64 frames last longer.
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

// A clock converts the 32-bit timestamps of FLV, in milliseconds, to times in the stream. These
// times do not wrap around or leap. If the times go back from one frame to the next, they go back
// by at most maxBack.
//
// A leap is a timestamp that is far from the expected time of its frame: more than maxLeap after
// the expected time, or more than maxBack before it. The clock holds a frame with a leap and gives
// it no time, until later frames show what the leap means:
//
//   - If later frames continue from the frames before the leap, the timestamps of the held frames
//     are wrong. These frames are called strays. They get times between their neighbours.
//   - If later frames continue from the leap for leapLasts, the clock accepts the leap.
//   - If the leap is ahead, and as much time has really passed, the clock accepts the leap earlier.
//     It measures the time by the wall clock or by the frames of the other track.
//
// The frame before a held frame waits, too, because its duration is not known yet.
//
// A round is a range of the stream in which a frame's time minus its timestamp is constant. A new
// round begins when the publisher starts over, or when the timestamps leap further ahead than time
// has passed. The new round follows the previous round without a pause.
//
// In each round, audio and video have the same difference of time and timestamp, so that they stay
// synchronous. Each track detects a new round from its own frames, because the timestamps of audio
// and video may be any distance apart. One track may therefore begin a round before the other.
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

// An arrival describes a frame that has arrived: ts is its timestamp, and wall and met are two
// measures of its arrival time. All are in ms.
//
//   - wall is the time of the wall clock, or 0 if it is not known.
//   - met is how much of the other track (audio or video) had arrived before the frame: the time
//     from the first frame of the other track to its newest frame.
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

// reach returns the time, in ms, from the track's first frame to its newest frame. It also counts
// held frames, which wait until later frames confirm their timestamps.
func (p *pace) reach() int64 { return p.gone + int64(len(p.held))*min(p.step, maxBack) }

// before returns the time in the stream that track p had reached when a frame of the other track
// arrived. The argument a is that frame.
func (p *pace) before(a arrival) int64 { return p.now + a.met - p.reach() }

// A stream has two tracks, audio and video. waited returns by how many ms the other track has
// advanced since the newest frame of track p arrived.
func (c *clock) waited(p *pace) int64 { return max(c.other(p).reach()-p.met, 0) }

// restart prepares the clock for a publisher that may have started over. The clock then accepts
// different timestamps as soon as a few consecutive frames confirm them.
func (c *clock) restart() { c.video.fresh, c.audio.fresh = true, true }

// add adds a new frame to track p. ts is the frame's timestamp, length is the expected duration of
// the previous frame, and wall is the arrival time, or 0 if it is not known. All are in ms.
//
// Usually add appends the new frame's time in the stream to the slice times. If the clock needs
// later frames to check the timestamp, the new frame waits, and add appends nothing. When frames
// stop waiting, add appends their times, oldest first.
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

// flush gives a time in the stream to all waiting frames of track p, and appends these times to the
// slice times. The clock does not wait for later frames to check the timestamps.
//
// If flush takes a timestamp for wrong, the frame gets a time between its neighbours. If full is
// true, the clock has no room for more frames, and flush trusts the newest frames with consecutive
// timestamps, even if these timestamps are far from the expected time.
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

// fitting finds the frames at the end of p.held that have about the expected timestamps, and
// returns the index of the oldest of these frames. The frames before this index may have wrong
// timestamps. length is the expected duration of a frame in ms.
func (c *clock) fitting(p *pace, length int64) int {
	head := len(p.held)
	for head > 0 && !(p.sole && head == 1) && c.fits(p, head-1, length) {
		head--
	}
	return head
}

// due returns the expected time of the frame a in the stream. n is the number of frames that wait
// before a (their timestamps are not confirmed yet), and length is the expected duration of a frame
// in ms.
func (p *pace) due(a arrival, n int, length int64) int64 {
	return p.now + max(a.met-p.met, int64(n)*length)
}

// since returns the time, in ms, from the arrival of the newest frame of p to the arrival of the
// frame a. It measures the time by the wall clock, if that is known, and by how far the other track
// (audio or video) has advanced. It returns the larger of the two values.
func (p *pace) since(a arrival) int64 {
	since := max(a.met-p.met, 0)
	if a.wall != 0 && p.wall != 0 {
		since = max(since, a.wall-p.wall)
	}
	return since
}

// earliest returns the earliest time in the stream that the clock accepts for the frame a at once.
// An earlier time is a leap, which later frames must confirm. n is the number of frames of the
// track that wait before a, and length is the expected duration of a frame in ms.
func (p *pace) earliest(a arrival, n int, length int64) int64 {
	late := int64(n) * length
	if a.wall != 0 && p.wall != 0 {
		late = min(late, a.wall-p.wall)
	}
	return p.now + late - maxBack
}

// latest returns the latest time in the stream that the clock accepts for the frame a of track p at
// once. A later time is a leap, which later frames must confirm. latest allows for a pause after
// the newest frame of p. n is the number of frames that wait before a, and length is the expected
// duration of a frame in ms.
func (c *clock) latest(p *pace, a arrival, n int, length int64) int64 {
	latest := p.now + max(p.step+int64(n)*length, p.since(a))
	if other := c.other(p); other.round == p.round {
		latest = max(latest, other.before(a))
	}
	return latest + maxLeap
}

// fits reports whether the frame p.held[i] has about the expected timestamp. length is the expected
// duration of a frame in ms.
//
//   - Usually the timestamp must follow the previous timestamps of the frame's own track.
//   - After a pause, the timestamp of a video frame may be ahead by the duration of the pause. The
//     timestamp of an audio frame may not be ahead, because audio may arrive in bursts.
//   - If the other track has already changed to new timestamps, the timestamp may instead follow
//     the timestamps of the other track.
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

// confirmed reports whether enough waiting frames of track p have consecutive timestamps, so that
// the clock can trust these timestamps although they are far from the expected time. row is the
// number of the newest waiting frames that have consecutive timestamps. length is the expected
// duration of a frame in ms.
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

// row returns the number of frames at the end of p.held that have consecutive timestamps. Two
// timestamps are consecutive if the second is at most maxStep after the first, or at most maxBack
// before it.
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

// settle gives a time in the stream to each frame in p.held, appends these times to the slice
// times, and empties p.held. The frames before the index head have wrong timestamps (they are
// strays), so they get times between their neighbours. The other frames have right timestamps.
// length is the expected duration of a frame in ms.
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

// firstIsStray reports whether the timestamp of a track's first frame is wrong. The arguments are
// the timestamps of the first frame and of two later frames, which confirm each other.
func firstIsStray(first, second, third uint32) bool {
	step, next := int32(second-first), int32(third-second)
	return step < 0 || int64(step) > 2*int64(next)
}

// at makes the frame a the newest frame of track p, and returns the frame's time in the stream.
// This time may be before the previous frame's time by up to maxBack. n is the number of frames
// with wrong timestamps directly before a, and length is the expected duration of a frame in ms.
//
// A publisher may change to new timestamps. The change may reach one track (audio or video) before
// the other track. If only the other track has changed, the timestamp of the frame a may be old or
// new. In that case, at computes one time for an old timestamp and one time for a new timestamp,
// and chooses the time that is nearer to the expected time.
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
			// The other track began its new timestamps before this track ended its old ones. Delay
			// both tracks by the overlap, so that this track does not go back.
			at += overlap
			other.now += overlap
		}
		p.round = other.round
	case begun && distance(own, other.before(a)) <= maxLeap && p.gone < leapLasts:
		// The times of the other track show that the first frames of track p had wrong timestamps.
		// Put the frame a directly after the previous frame of track p. Move the other track by the
		// same time as the frame a.
		at = p.now + int64(n+1)*length
		other.now += at - own
	default:
		// The publisher has changed to new timestamps. Usually, the frame a follows directly after
		// the previous frame of track p. If the other track is far ahead, the frame a gets a later
		// time, which is maxBack before the expected time of the frame (due).
		at = max(p.now+int64(n+1)*length, due-maxBack)
		if len(other.held) > 0 && !other.sole {
			// The other track has changed, too, and its new frames are still waiting. Their times
			// must not overlap with the earlier frames of the other track. If they would overlap,
			// delay both tracks by the overlap, but by at most leapLasts.
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

// continued converts the timestamp ts to a time in the stream. The distance from the track's newest
// frame is the same for the time as for the timestamp.
func (p *pace) continued(ts uint32) int64 { return p.now + int64(int32(ts-p.last)) }

// noteStep records the time, in ms, between the two newest frames of the track.
func (p *pace) noteStep(step int64) {
	p.step = max(step, 0)
	if p.slow = max(p.slow-1, 0); step > slowStep {
		p.slow = slowFrames
	}
}

func distance(a, b int64) int64 { return max(a-b, b-a) }
