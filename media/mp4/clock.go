package mp4

const (
	// maxBack is how far a timestamp may go back before it counts as a jump. Decoding times should
	// not go back at all, but encoders round decoding times, and some encoders correct their clock
	// by a few frames.
	maxBack = 500 // ms

	// maxAhead is how far a timestamp may be ahead of the expected time before it counts as a jump.
	maxAhead = 300 // ms

	// maxPause is the longest pause in the stream that the clock accepts if it does not know when
	// the frames arrived. If the timestamps jump ahead further than maxPause, the stream continues
	// without a pause.
	maxPause = 60_000 // ms

	// If consecutive frames after a jump span at least confirmTime, the clock accepts the jump. A
	// few frames with wrong timestamps span less time.
	confirmTime = 1000 // ms

	minConfirm = 3

	// maxHeld is the maximum number of frames that the clock holds in one track. When a track has
	// reached the maximum, the clock accepts a jump without waiting for confirmTime. At 60 frames
	// per second or less, 64 frames span more than confirmTime.
	maxHeld = 64

	// Two frames of a track are consecutive if the second timestamp is at most maxStep after the
	// first, or at most maxBack before it.
	maxStep = 10_000 // ms

	// Audio that is more than maxAlone ahead of video does not wait for the video.
	maxAlone = 65 // ms

	// If two video frames are more than slowStep apart (less than 23 frames a second), the video
	// counts as slow for the next slowFrames frames. Audio does not wait for slow video.
	slowStep   = 45 // ms
	slowFrames = 128
)

// A clock converts FLV timestamps to times in the stream. Both are in milliseconds. FLV timestamps
// have 32 bits, so they wrap around, and they may jump. Times in the stream do not wrap around. The
// time of a frame is at most maxBack before the time of the previous frame.
//
// # Jumps
//
// A timestamp jumps if it is more than maxAhead after the expected timestamp, or more than maxBack
// before it. Unless the clock can decide at once, it holds the frame and waits for more frames:
//
//   - If the timestamps of the next frames fit the timestamps before the jump, the held frames had
//     wrong timestamps. Such frames are called strays. They get times between the times of their
//     neighbors.
//   - If the jump is ahead, and not longer than the time that has passed, the publisher has paused.
//     The clock accepts the jump: for video at once, and for audio after minConfirm frames. It
//     measures the passed time with the wall clock and with the frames of the other track.
//   - In other cases, the clock accepts the jump when the frames after it span confirmTime.
//
// While a frame is held, the frame before it waits, too, because the duration of that earlier frame
// is not known yet.
//
// # Rounds
//
// The stream consists of rounds. Within a round, the clock adds the same number to the timestamps
// of audio and video, so that audio and video stay synchronous. A new round begins when the
// publisher starts over, or when the timestamps jump ahead by more time than has passed. The new
// round follows the previous round without a pause.
//
// Each track detects a new round from its own frames, because the timestamps of audio and video may
// be far apart. One track may therefore begin a round before the other.
//
// # Parameters
//
// Several methods have the same parameters:
//
//   - f: a frame that does not have a time in the stream yet.
//   - n: the number of frames between f and the newest frame of the same track that has a time.
//   - length: the expected duration of a frame, in ms.
type clock struct {
	first        int64 // time in the stream of the first frame
	early        int64 // maximum of a frame's time in the stream minus its arrival time
	video, audio pace
}

type pace struct {
	round int    // number of the current round, from 1; 0 before the first frame
	last  uint32 // timestamp of the newest frame that has a time
	now   int64  // time in the stream of that frame
	wall  int64  // arrival time of that frame by the wall clock, in ms
	step  int64  // time between the newest two frames, in ms
	slow  int    // number of frames for which video still counts as slow
	gone  int64  // time from the track's first frame to its newest frame
	met   int64  // result of reach for the other track when that frame arrived

	fresh bool      // the sequence header has changed: the publisher may have started over
	sole  bool      // only one frame has arrived, which may be a stray; it is also in held
	held  []arrival // frames without a time in the stream, oldest first
}

// An arrival is a frame that has arrived. The fields wall and met are two measurements of the
// arrival time. All fields are in ms.
type arrival struct {
	ts   uint32 // timestamp
	wall int64  // time of the wall clock, or 0 if the time is not known
	met  int64  // result of reach for the other track when the frame arrived
}

func (c *clock) passed() int64 { return max(c.video.now, c.audio.now) - c.first }

func (c *clock) other(p *pace) *pace {
	if p == &c.audio {
		return &c.video
	}
	return &c.audio
}

// reach returns the time, in ms, from the track's first frame to its newest frame. If the newest
// frame is held, the time is an estimate.
func (p *pace) reach() int64 { return p.gone + int64(len(p.held))*min(p.step, maxBack) }

// timeAt returns the stream time of track p at the arrival of f, a frame of the other track.
func (p *pace) timeAt(f arrival) int64 { return p.now + f.met - p.reach() }

// waited returns how long track p has had no new frame, in ms. It measures this time with the
// frames of the other track.
func (c *clock) waited(p *pace) int64 { return max(c.other(p).reach()-p.met, 0) }

// restart makes the clock accept a jump after minConfirm frames.
func (c *clock) restart() { c.video.fresh, c.audio.fresh = true, true }

// add adds a frame with the timestamp ts to track p. It appends the stream times of the waiting
// frames and of this frame to dst, or nothing if the frame must wait. wall is the arrival time in
// ms, or 0.
func (c *clock) add(dst []int64, p *pace, ts uint32, length, wall int64) []int64 {
	p.held = append(p.held, arrival{ts, wall, c.other(p).reach()})
	n := len(p.held)
	switch {
	case p.round == 0:
		c.advance(p, p.held[0], 0, length)
		p.sole = true
		return dst
	case c.isExpected(p, n-1, length):
		return c.settle(dst, p, c.firstExpected(p, length), length)
	}
	count := p.consecutive()
	if n < maxHeld && !c.confirmed(p, count, length) {
		return dst
	}
	return c.settle(dst, p, n-count, length)
}

// flush appends the times of all held frames of track p to dst, oldest first. Afterwards, p.held is
// empty.
//
// If the timestamps of the held frames jump, flush usually treats these frames as strays. The
// caller sets full if it has no room for more frames. flush then accepts the jump if the newest
// frames are consecutive.
func (c *clock) flush(dst []int64, p *pace, length int64, full bool) []int64 {
	switch n, count := len(p.held), p.consecutive(); {
	case n == 0:
		return dst
	case p.sole && n == 1:
		p.sole, p.held = false, p.held[:0]
		return append(dst, p.now)
	case count > 1 && (full || p.sole):
		return c.settle(dst, p, n-count, length)
	default:
		return c.settle(dst, p, c.firstExpected(p, length), length)
	}
}

// firstExpected returns the index in p.held from which all timestamps are close to the expected
// ones.
func (c *clock) firstExpected(p *pace, length int64) int {
	head := len(p.held)
	for head > 0 && !(p.sole && head == 1) && c.isExpected(p, head-1, length) {
		head--
	}
	return head
}

func (p *pace) expected(f arrival, n int, length int64) int64 {
	return p.now + max(f.met-p.met, int64(n)*length)
}

// elapsed returns the time, in ms, from the arrival of p's newest frame to the arrival of f. It
// uses the longer of two measurements: the progress of the other track, and the time by the wall
// clock, if the wall clock was read at both arrivals.
func (p *pace) elapsed(f arrival) int64 {
	since := max(f.met-p.met, 0)
	if f.wall != 0 && p.wall != 0 {
		since = max(since, f.wall-p.wall)
	}
	return since
}

// earliest returns the earliest time in the stream that f may have without counting as a jump.
func (p *pace) earliest(f arrival, n int, length int64) int64 {
	late := int64(n) * length
	if f.wall != 0 && p.wall != 0 {
		late = min(late, f.wall-p.wall)
	}
	return p.now + late - maxBack
}

// latest returns the latest time in the stream that f may have without counting as a jump.
func (c *clock) latest(p *pace, f arrival, n int, length int64) int64 {
	latest := p.now + max(p.step+int64(n)*length, p.elapsed(f))
	if other := c.other(p); other.round == p.round {
		latest = max(latest, other.timeAt(f))
	}
	return latest + maxAhead
}

// isExpected reports whether the timestamp of p.held[i] is close to the expected timestamp. If the
// other track is already in a later round, a timestamp of that round fits, too.
//
// After a pause, the timestamp of a video frame may be ahead by the duration of the pause. For
// audio, this is not allowed: audio often arrives in bursts, so a long time between two arrivals
// need not be a pause.
func (c *clock) isExpected(p *pace, i int, length int64) bool {
	f := p.held[i]
	own, late := p.continued(f.ts), p.step+int64(i)*length
	if p == &c.video {
		late = max(late, p.elapsed(f))
	}
	if p.earliest(f, i, length) <= own && own <= p.now+late+maxAhead {
		return true
	}
	other := c.other(p)
	return p.round < other.round &&
		distance(other.continued(f.ts), p.expected(f, i, length)) <= maxAhead
}

// confirmed reports whether the newest k frames, which must be consecutive, confirm a jump.
func (c *clock) confirmed(p *pace, k int, length int64) bool {
	n := len(p.held)
	first, last := p.held[n-k], p.held[n-1]
	switch own := p.continued(first.ts); {
	case k < minConfirm:
		return false
	case p.sole, p.fresh, own > p.now && own <= c.latest(p, first, 0, length):
		return true
	}
	return int64(int32(last.ts-first.ts)) >= confirmTime
}

func (p *pace) consecutive() int {
	n := len(p.held)
	count := min(n, 1)
	for ; count < n; count++ {
		step := int64(int32(p.held[n-count].ts - p.held[n-count-1].ts))
		if p.sole && count == n-1 || step < -maxBack || step > maxStep {
			break
		}
	}
	return count
}

// settle appends the times of the frames in p.held to dst, and empties p.held. The frames before
// index head are strays, except perhaps the track's first frame (see firstIsStray).
func (c *clock) settle(dst []int64, p *pace, head int, length int64) []int64 {
	held := p.held
	strays := held[:head]
	if p.sole {
		strays = strays[1:]
		if len(held) > head+1 && firstIsStray(held[0].ts, held[head].ts, held[head+1].ts) {
			p.round = 0
			to := c.advance(p, held[head], 0, length)
			for i := head; i > 0; i-- {
				dst = append(dst, max(to-int64(i)*length, 0))
			}
			dst = append(dst, to)
			head++
			strays = nil
		} else {
			dst = append(dst, p.now)
		}
	}
	from, usual := p.now, max(p.step, length)
	to := from + usual*int64(len(strays)+1)
	if head < len(held) {
		to = c.advance(p, held[head], len(strays), length)
	}
	step := min(max(to-from, 0)/int64(len(strays)+1), usual)
	for i := range strays {
		dst = append(dst, from+step*int64(i+1))
	}
	for i := head; i < len(held); i++ {
		if i > head {
			from = p.now
			to = c.advance(p, held[i], 0, length)
		}
		dst = append(dst, to)
		p.noteStep((to - from) / int64(len(strays)+1))
		strays = nil
	}
	if n := step * int64(len(strays)); n > 0 { // the next frames continue from the last stray
		p.now, p.last = p.now+n, p.last+uint32(n)
	}
	p.sole, p.fresh, p.held = false, false, held[:0]
	return dst
}

// firstIsStray reports whether the first frame of a track is a stray. The arguments are the
// timestamps of the first frame, and of two later frames that are not strays.
func firstIsStray(first, second, third uint32) bool {
	step, next := int32(second-first), int32(third-second)
	return step < 0 || int64(step) > 2*int64(next)
}

// advance makes f the newest frame of track p, and returns the time of f in the stream. This time
// may be up to maxBack before the previous frame's time.
//
// If the other track is already in a later round, f may belong to that round, or still to the round
// of p. advance computes a time for both rounds, and chooses the time that is nearer to the
// expected time.
func (c *clock) advance(p *pace, f arrival, n int, length int64) int64 {
	other := c.other(p)
	begins := p.round == 0
	if begins && other.round == 0 {
		p.round, p.last, p.now, p.wall = 1, f.ts, int64(f.ts), f.wall
		c.first, c.early = p.now, p.now-f.wall
		return p.now
	}
	if begins {
		p.now, p.met = other.now, f.met
	}
	due := p.expected(f, n, length)
	latest := c.latest(p, f, n, length)
	if f.wall == 0 {
		latest = max(latest, p.now+p.elapsed(f)+maxPause)
	} else {
		latest = max(latest, f.wall+c.early+maxAhead)
	}
	own, theirs := p.continued(f.ts), other.continued(f.ts)
	begun := !begins && p.round == other.round
	continues := !begins && p.earliest(f, n, length) <= own && own <= latest
	joins := p.round < other.round && distance(theirs, due) <= maxPause
	p.wall, p.met = f.wall, f.met
	var t int64
	switch {
	case continues && !(joins && distance(theirs, due) < distance(own, due)):
		if own < p.now {
			return own
		}
		t = own
	case joins:
		t = theirs
		if overlap := p.now + length - t; !begins && overlap > 0 {
			// The new timestamps of the other track begin before the old timestamps of this track
			// end. Delay both tracks, so that the times of this track do not go back.
			t += overlap
			other.now += overlap
		}
		p.round = other.round
	case begun && distance(own, other.timeAt(f)) <= maxAhead && p.gone < confirmTime:
		// The first frames of track p had wrong timestamps. Put f directly after the previous
		// frame, and move the other track by the same time.
		t = p.now + int64(n+1)*length
		other.now += t - own
	default:
		// The publisher has changed to new timestamps. Usually f follows the previous frame
		// directly. If the other track is far ahead, f gets a time maxBack before its expected
		// time.
		t = max(p.now+int64(n+1)*length, due-maxBack)
		if len(other.held) > 0 && !other.sole {
			// The held frames of the other track have new timestamps, too. Delay both tracks, but
			// by at most confirmTime, so that these frames do not overlap the other track's earlier
			// frames.
			overlap := other.now + other.step + 1 - (t + int64(int32(other.held[0].ts-f.ts)))
			t += max(0, min(overlap, confirmTime))
		}
		p.round = max(p.round, other.round) + 1
	}
	if !begins {
		p.gone += t - p.now
	}
	p.last, p.now = f.ts, t
	c.early = max(c.early, t-f.wall)
	return t
}

// continued returns the time in the stream for the timestamp ts if the timestamps have not jumped.
func (p *pace) continued(ts uint32) int64 { return p.now + int64(int32(ts-p.last)) }

func (p *pace) noteStep(step int64) {
	p.step = max(step, 0)
	if p.slow = max(p.slow-1, 0); step > slowStep {
		p.slow = slowFrames
	}
}

func distance(a, b int64) int64 { return max(a-b, b-a) }
