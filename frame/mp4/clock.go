package mp4

const (
	// maxBack is how far behind the newest tag of its track a tag of the same round may be. Decoding times do not go back,
	// but encoders round them, and some correct their clock by a few frames.
	maxBack = 500 // ms

	// maxPause is how far ahead of its due time a tag of the same round may be, after a pause.
	maxPause = 60_000 // ms

	// maxAlone is how far one track goes on without a tag of the other before the other counts as stopped.
	maxAlone = 500 // ms
)

// clock turns FLV's 32 bits of milliseconds into a time of the stream that does not wrap, go back or leap.
//
// A publisher that starts over, or whose clock leaps, begins a new round. Each track detects that by its own tags,
// because sound and picture may be any distance apart, so one track may enter a round before the other. A round has one
// offset for both, so that sound and picture keep their distance.
type clock struct {
	first        int64 // the stream's time at the first tag
	video, audio pace
}

// picture returns the decoding time of a picture with the time ts. length is how long the picture before it lasts.
func (c *clock) picture(ts uint32, length int64) int64 { return c.at(&c.video, &c.audio, ts, length) }

// sound returns the decoding time of a frame of sound with the time ts. length is how long the frame before it lasts.
func (c *clock) sound(ts uint32, length int64) int64 { return c.at(&c.audio, &c.video, ts, length) }

// passed returns how much of the stream has passed.
func (c *clock) passed() int64 { return max(c.video.now, c.audio.now) - c.first }

// pace is the progress of one track.
type pace struct {
	round  int    // counts from 1; 0 before the first tag
	last   uint32 // FLV's time of the latest tag of the round
	now    int64  // the stream's time of the same tag
	waited int64  // how far the other track has gone since the newest tag of this one
}

// at returns the stream's time of a tag of track p with the time ts. It may be up to maxBack before p.now.
//
// While the tracks are in different rounds, a tag may fit into both: a late tag of the old round, or a tag of a track
// that was silent when the new round began. It belongs to the round that puts it nearer to its track's due time.
func (c *clock) at(p, other *pace, ts uint32, length int64) int64 {
	begins := p.round == 0
	if begins && other.round == 0 {
		*p, c.first = pace{round: 1, last: ts, now: int64(ts)}, int64(ts)
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

// stopped reports whether the track has been without tags while the other went on: for longer than interleaving
// explains, or, if it never had any, for longer than a track is waited for.
func (p *pace) stopped() bool {
	if p.round == 0 {
		return p.waited > trackWait
	}
	return p.waited > maxAlone
}

func distance(a, b int64) int64 { return max(a-b, b-a) }
