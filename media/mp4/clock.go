package mp4

const (
	// maxBack is how far behind the newest frame of its track a frame of the same round may be.
	// Decoding times do not go back, but encoders round them, and some correct their clock by a few
	// frames.
	maxBack = 500 // ms

	// maxLeap is how far ahead of its due time a frame may be without being held until other frames
	// confirm its time.
	maxLeap = 300 // ms

	// maxPause is how far ahead of its due time a frame of the same round may be if it is not known
	// when frames come.
	maxPause = 60_000 // ms

	// leapLasts is for how long successive frames must continue from a leap until it counts. Runs
	// of stray frames are shorter.
	leapLasts = 1000 // ms

	// confirming is how many frames in a row make a leap at least.
	confirming = 3

	// maxHeld bounds the frames of a track that are held: more than leapLasts of 60 frames a
	// second. The newest row of them counts then.
	maxHeld = 64

	// maxStep is how far ahead of the frame before it a frame of the same row may be.
	maxStep = 10_000 // ms

	// maxAlone is how far audio may be ahead of the video that it is sent with.
	maxAlone = 65 // ms

	// slowStep is the step of video above which audio is not sent with it: less than 23 frames a
	// second. One such step counts for slowFrames.
	slowStep   = 45 // ms
	slowFrames = 128
)

// A clock turns FLV's 32 bits of milliseconds into a time of the stream that does not wrap, go back
// or leap.
//
// A frame with a leap in time is held until the next frames explain it. If they continue from the
// frames before it, the held frames were strays, and get times between their neighbours. If they
// continue from the leap for leapLasts, the clock leaps, too. A leap ahead counts earlier if that
// much time has passed when it comes, by the wall clock, or by the frames of the other track.
// Holding delays the frame before the leap: its duration is not known earlier.
//
// A publisher that starts over, or leaps further than time has passed, begins a new round, which
// follows the previous round without a pause. Each track detects that from its own frames, because
// audio and video may be any distance apart, so one track may enter a round before the other. A
// round has one offset for both, so that audio and video keep their distance.
type clock struct {
	first        int64 // the stream's time at the first frame
	early        int64 // from when a frame came to its time in the stream, at most
	video, audio pace
}

// pace is the progress of one track.
type pace struct {
	round int    // counts from 1; 0 before the first frame
	last  uint32 // FLV's time of the latest frame of the round
	now   int64  // the stream's time of the same frame
	wall  int64  // when the newest frame that has a time came, in ms
	step  int64  // from the frame before to it
	slow  int    // for so many frames the track counts as slow
	gone  int64  // how far the track has gone since its first frame
	met   int64  // reach of the other track, when the newest frame of this one came

	fresh bool      // since a sequence header has changed: the publisher may have started over
	sole  bool      // the first frame is the only one, and is in held, too: it may be the stray
	held  []arrival // the frames that have no time of the stream yet, oldest first
}

// An arrival is a frame that has come: its time in FLV, and when it came, in ms and by the other
// track's reach.
type arrival struct {
	ts        uint32
	wall, met int64
}

// passed returns how much of the stream has passed.
func (c *clock) passed() int64 { return max(c.video.now, c.audio.now) - c.first }

// other returns the other track.
func (c *clock) other(p *pace) *pace {
	if p == &c.audio {
		return &c.video
	}
	return &c.audio
}

// reach returns how far the track has gone with the frames that are held.
func (p *pace) reach() int64 { return p.gone + int64(len(p.held))*min(p.step, maxBack) }

// before returns the stream's time of the track's newest frame when a came.
func (p *pace) before(a arrival) int64 { return p.now + a.met - p.reach() }

// waited returns how far the other track has gone since the newest frame of p.
func (c *clock) waited(p *pace) int64 { return max(c.other(p).reach()-p.met, 0) }

// restart says that the publisher may have started over: a leap of the next frames counts as soon
// as confirming of them agree.
func (c *clock) restart() { c.video.fresh, c.audio.fresh = true, true }

// add takes the newest frame of track p: its time ts, how long the frame before lasts, and when it
// came, in ms. wall is 0 if that is not known. add appends the stream's times of the frames that
// have one now to times, oldest first.
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

// flush appends the times of the frames that track p holds. Frames that do not continue the stream
// are strays, unless full says that there is no room to hold more.
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

// fitting returns the index of the first of the newest held frames that continue the stream, by
// present knowledge.
func (c *clock) fitting(p *pace, length int64) int {
	head := len(p.held)
	for head > 0 && !(p.sole && head == 1) && c.fits(p, head-1, length) {
		head--
	}
	return head
}

// due returns the time that a frame of p is expected at if n frames between it and the newest one
// have no time yet.
func (p *pace) due(a arrival, n int, length int64) int64 {
	return p.now + max(a.met-p.met, int64(n)*length)
}

// since returns how much time has passed from the newest frame of p to a, by the wall clock or by
// the other track.
func (p *pace) since(a arrival) int64 {
	since := max(a.met-p.met, 0)
	if a.wall != 0 && p.wall != 0 {
		since = max(since, a.wall-p.wall)
	}
	return since
}

// earliest returns how early a frame of the round of p may be that comes after n frames without a
// time.
func (p *pace) earliest(a arrival, n int, length int64) int64 {
	late := int64(n) * length
	if a.wall != 0 && p.wall != 0 {
		late = min(late, a.wall-p.wall)
	}
	return p.now + late - maxBack
}

// latest returns how late such a frame may be by the time that has passed, as far as that is known.
func (c *clock) latest(p *pace, a arrival, n int, length int64) int64 {
	latest := p.now + max(p.step+int64(n)*length, p.since(a))
	if other := c.other(p); other.round == p.round {
		latest = max(latest, other.before(a))
	}
	return latest + maxLeap
}

// fits reports whether the held frame i continues from the newest frame of its track, or from that
// of the other one if that is in a later round. Audio may come in bursts, so only video is trusted
// at once by the time that has passed.
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

// confirmed reports whether the newest held frames, row of them in a row, show that the clock has
// leapt.
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

// row returns how many of the newest held frames follow one another.
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

// settle appends the times of all held frames. Those from held[head] on continue the stream, and
// the earlier ones are strays.
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
	if n := step * int64(len(strays)); n > 0 { // the next frames continue from the last of them
		p.now, p.last = p.now+n, p.last+uint32(n)
	}
	p.sole, p.fresh, p.held = false, false, held[:0]
	return times
}

// firstIsStray reports whether the first frame of a track is odd, and not the two that follow one
// another after it.
func firstIsStray(first, second, third uint32) bool {
	step, next := int32(second-first), int32(third-second)
	return step < 0 || int64(step) > 2*int64(next)
}

// at returns the stream's time of a frame of track p, which may be up to maxBack before p.now. n
// strays come before the frame.
//
// While the tracks are in different rounds, a tag may fit into both: a late tag of the old round,
// or a tag of a track that was silent when the new round began. It belongs to the round that puts
// it nearer to its track's due time.
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
			// The other track ended earlier in the old round: the new round begins that much later
			// for both.
			at += overlap
			other.now += overlap
		}
		p.round = other.round
	case begun && distance(own, other.before(a)) <= maxLeap && p.gone < leapLasts:
		// The first frames of the track were odd, as the other track shows: both continue from the
		// position of this one.
		at = p.now + int64(n+1)*length
		other.now += at - own
	default:
		// Right behind the last tag, or near the other track if that has gone on alone for longer
		// than interleaving explains.
		at = max(p.now+int64(n+1)*length, due-maxBack)
		if len(other.held) > 0 && !other.sole {
			// The other track has leapt, too: the round begins where the later one ends.
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

// continued returns the stream's time of ts in the round of p.
func (p *pace) continued(ts uint32) int64 { return p.now + int64(int32(ts-p.last)) }

// noteStep takes the time from one frame to the next.
func (p *pace) noteStep(step int64) {
	p.step = max(step, 0)
	if p.slow = max(p.slow-1, 0); step > slowStep {
		p.slow = slowFrames
	}
}

func distance(a, b int64) int64 { return max(a-b, b-a) }
