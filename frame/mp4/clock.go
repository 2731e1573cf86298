package mp4

const (
	// maxBack is how far behind the newest frame of its track a frame of the same round may be. Decoding times do not go
	// back, but encoders round them, and some correct their clock by a few frames.
	maxBack = 500 // ms

	// maxLeap is how far ahead of its due time a frame may be without being held until other frames confirm its time.
	maxLeap = 300 // ms

	// maxPause is how far ahead of its due time a frame of the same round may be, after a pause.
	maxPause = 60_000 // ms

	// confirming is how many frames in a row make a leap: a stray frame is alone.
	confirming = 3

	// maxHeld bounds the frames that are held. If no time is confirmed by then, the times make no sense.
	maxHeld = 6

	// maxAlone is how far audio goes ahead of the video that it is sent with.
	maxAlone = 65 // ms

	// slowStep is the step of video above which audio is not sent with it: less than 23 frames a second. One such step
	// counts for slowFrames.
	slowStep   = 45 // ms
	slowFrames = 128
)

// A clock turns FLV's 32 bits of milliseconds into a time of the stream that does not wrap, go back or leap.
//
// A frame whose time leaps is held until the frames after it say what it is. If they go on from the leap, the clock
// leaps, too. If they go on from the frames before it, the frame was a stray, and is put between its neighbours. A leap
// ahead is not held if as much time has passed by the wall clock, or by the frames of the other track. Holding delays
// the frame before the leap, whose duration is not known earlier.
//
// A publisher that starts over, or whose clock leaps far, begins a new round. Each track detects that by its own frames,
// because audio and video may be any distance apart, so one track may enter a round before the other. A round has one
// offset for both, so that audio and video keep their distance.
type clock struct {
	first        int64 // the stream's time at the first frame
	video, audio pace
}

// pace is the progress of one track.
type pace struct {
	round  int    // counts from 1; 0 before the first frame
	last   uint32 // FLV's time of the latest frame of the round
	now    int64  // the stream's time of the same frame
	wall   int64  // when it came, in ms
	step   int64  // from the frame before to it
	slow   int    // for so many frames the track counts as slow
	waited int64  // how far the other track has gone since the newest frame of this one

	sole bool     // the first frame is the only one, and is in held, too: it may be the stray
	held []uint32 // FLV's times of the frames that have no time of the stream yet, oldest first
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

// add takes the newest frame of track p: its time ts, how long the frame before lasts, and when it came, in ms. wall is
// 0 if that is not known. add appends the stream's times of the frames that have one now to times, oldest first.
func (c *clock) add(times []int64, p *pace, ts uint32, length, wall int64) []int64 {
	p.held = append(p.held, ts)
	n := len(p.held)
	switch {
	case p.round == 0:
		c.at(p, ts, length)
		p.sole, p.wall = true, wall
		return times
	case c.fits(p, ts, wall):
		times = c.settle(times, p, c.fitting(p, wall), length)
	default:
		row := p.row()
		if need := confirming; row < need && !(p.sole && row == need-1) && n < maxHeld {
			return times
		}
		times = c.settle(times, p, n-row, length)
	}
	p.wall = wall
	return times
}

// flush appends the times of the frames that track p holds: no more come that could confirm a leap.
func (c *clock) flush(times []int64, p *pace, length int64) []int64 {
	switch n, row := len(p.held), p.row(); {
	case n == 0:
		return times
	case p.sole && n == 1:
		p.sole, p.held = false, p.held[:0]
		return append(times, p.now)
	case row > 1:
		return c.settle(times, p, n-row, length)
	default:
		return c.settle(times, p, c.fitting(p, 0), length)
	}
}

// fitting returns the index of the first of the newest held frames that go on with the stream by what is known now.
func (c *clock) fitting(p *pace, wall int64) int {
	head := len(p.held)
	for head > 0 && !(p.sole && head == 1) && c.fits(p, p.held[head-1], wall) {
		head--
	}
	return head
}

// fits reports whether the time ts of a frame that came at wall goes on from the newest frame of its track, or from that
// of the other one if that is in a later round. Audio may come in bursts, and confirms a leap within some dozens of
// milliseconds, so that only video is believed by the time that has passed.
func (c *clock) fits(p *pace, ts uint32, wall int64) bool {
	own, late := p.continued(ts), p.step
	if p == &c.video {
		late = max(late, p.waited)
		if wall != 0 && p.wall != 0 {
			late = max(late, wall-p.wall)
		}
	}
	if p.now-maxBack <= own && own <= p.now+late+maxLeap {
		return true
	}
	other := c.other(p)
	return p.round < other.round && distance(other.continued(ts), p.now+p.waited) <= maxLeap
}

// row returns how many of the newest held frames follow one another.
func (p *pace) row() int {
	n := len(p.held)
	row := min(n, 1)
	for ; row < n; row++ {
		step := int64(int32(p.held[n-row] - p.held[n-row-1]))
		if p.sole && row == n-1 || step < -maxBack || step > maxPause/maxHeld {
			break
		}
	}
	return row
}

// settle appends the times of all held frames. Those from held[head] on go on with the stream, the ones before it are
// strays.
func (c *clock) settle(times []int64, p *pace, head int, length int64) []int64 {
	held := p.held
	strays := held[:head]
	if p.sole {
		strays = strays[1:]
		if len(held) > head+1 && firstIsStray(held[0], held[head], held[head+1]) {
			p.round = 0
			to := c.at(p, held[head], length)
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
		to = c.at(p, held[head], length)
	}
	step := max(to-from, 0) / int64(len(strays)+1)
	for i := range strays {
		times = append(times, from+min(step, usual)*int64(i+1))
	}
	for i := head; i < len(held); i++ {
		if i > head {
			from = p.now
			to = c.at(p, held[i], length)
		}
		times = append(times, to)
		p.noteStep((to - from) / int64(len(strays)+1))
		strays = nil
	}
	p.sole, p.held = false, held[:0]
	return times
}

// firstIsStray reports whether the first frame of a track is odd, and not the two that follow one another after it.
func firstIsStray(first, second, third uint32) bool {
	step, next := int32(second-first), int32(third-second)
	return step < 0 || int64(step) > 2*int64(next)
}

// at returns the stream's time of a tag of track p with the time ts. It may be up to maxBack before p.now.
//
// While the tracks are in different rounds, a tag may fit into both: a late tag of the old round, or a tag of a track
// that was silent when the new round began. It belongs to the round that puts it nearer to its track's due time.
func (c *clock) at(p *pace, ts uint32, length int64) int64 {
	other := c.other(p)
	begins := p.round == 0
	if begins && other.round == 0 {
		p.round, p.last, p.now, c.first = 1, ts, int64(ts), int64(ts)
		return p.now
	}
	if begins {
		p.now, p.waited = other.now, 0
	}
	due := p.now + p.waited
	own, theirs := p.continued(ts), other.continued(ts)
	goesOn := !begins && p.now-maxBack <= own && own <= due+maxPause
	joins := p.round < other.round && distance(theirs, due) <= maxPause
	p.waited = 0
	var at int64
	switch {
	case goesOn && !(joins && distance(theirs, due) < distance(own, due)):
		if own < p.now {
			return own
		}
		at = own
	case joins:
		at = theirs
		if overlap := p.now + length - at; !begins && overlap > 0 {
			// The other track ended earlier in the old round: the new round begins that much later for both.
			at += overlap
			other.now += overlap
		}
		p.round = other.round
	default:
		// Right behind the last tag, or near the other track if that has gone on alone for longer than interleaving explains.
		at = max(p.now+length, due-maxBack)
		p.round = max(p.round, other.round) + 1
	}
	if !begins {
		other.waited += at - p.now
	}
	p.last, p.now = ts, at
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
