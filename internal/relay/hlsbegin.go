package relay

import (
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/frame/hls"
	"github.com/millrace-io/millrace/frame/mp4"
)

// An hlsBegin has the first fragments of a window, of which its times are chosen: they may not change later.
type hlsBegin struct {
	list  []hlsBegun
	line  mp4.Timeline
	bytes int64

	keys  int           // keyframes in list
	key   time.Duration // where the last one is
	keyAt time.Duration // the same, from the beginning of the first fragment
	group time.Duration // the longest distance of two
}

type hlsBegun struct {
	fragment
	body millrace.Chain
	end  time.Duration // of the stream, from the beginning of the first one
}

func (b *hlsBegin) release() {
	for i := range b.list {
		b.list[i].body.Release()
	}
}

// add takes ownership of body.
func (b *hlsBegin) add(f fragment, body *millrace.Chain) {
	if f.newInit && len(b.list) > 0 || f.afterLoss { // of what came before, nothing was shown
		b.release()
		*b = hlsBegin{}
		f.newInit, f.afterLoss = true, false
	}
	b.bytes += int64(body.Len())
	from, to := b.line.Add(f.FragmentInfo)
	if f.Pictures > 0 && f.Key {
		if b.keys++; b.keys > 1 {
			b.group = max(b.group, f.Start-b.key)
		}
		b.key, b.keyAt = f.Start, b.length()
	}
	b.list = append(b.list, hlsBegun{fragment: f, body: *body, end: b.length() + to - from})
	*body = millrace.Chain{}
}

// length returns how long the fragments are.
func (b *hlsBegin) length() time.Duration {
	if len(b.list) == 0 {
		return 0
	}
	return b.list[len(b.list)-1].end
}

const (
	// hlsFewest is how many fragments tell how long fragments are, unless they are long.
	hlsFewest = 6
	// hlsFewestParts is how long the first segment is in parts, at least: as far from the end as players of parts stay.
	hlsFewestParts = 3
	// hlsMost bounds the fragments that wait for a window: two segments have hundreds.
	hlsMost = 1 << 12
	// hlsLongest is the longest target duration. A longer group of pictures is cut.
	hlsLongest = 16 * time.Second
	// hlsVideoPart is how long parts of video are at most: at every rate from 23.9 to 60 frames a second, some number of
	// frames is between 85% and 100% of it, with some milliseconds to spare for times that are rounded. At 25 frames a
	// second 6 and 7 frames are, so that a segment of whole seconds has no short part at its end.
	hlsVideoPart = 282 * time.Millisecond
	// hlsJitter is how much longer a part may be than its frames say, because their times are rounded.
	hlsJitter = 2 * time.Millisecond
	// hlsShortest is how far the keyframe that is expected next is from the end of the first
	// segment, at least.
	hlsShortest = 500 * time.Millisecond
	// hlsEarly is how much shorter than wanted a segment may be: keyframes that are meant to be as far apart as a segment
	// is long may be a little nearer, and a segment of twice as many would keep players twice as far behind.
	hlsEarly = 50 * time.Millisecond
	// hlsEven is how far apart the durations of even frames are: times are in whole milliseconds, and clocks are set.
	hlsEven = 5 * time.Millisecond
)

// interval returns the distance of keyframes, 0 if it is not known.
func (b *hlsBegin) interval(s *stream) time.Duration {
	if b.keys > 1 {
		return b.group
	}
	return time.Duration(s.usualInterval.Load()) * time.Millisecond
}

// enough reports whether the times of a window can be chosen, and what has come is enough for a first segment: the
// distance of keyframes is known, or it is known to be longer than a segment may be, or there is no keyframe.
func (b *hlsBegin) enough(s *stream, m mp4.Movie) bool {
	cfg := &s.hub.cfg.HLS
	if len(b.list) >= hlsMost || b.bytes > cfg.MaxBytes/4 {
		return true
	}
	wait := hlsLongest
	// If there was a keyframe, it comes: slides leave when the next one is there.
	if b.keys == 0 && (!s.ownStart.Load() || s.noVideo.Load()) {
		wait = 2 * cfg.Segment
	}
	known := !m.Video || b.interval(s) > 0 || b.length() >= wait
	few := len(b.list) < hlsFewest && b.length() < 2*cfg.Segment // long fragments, as of slides, are few
	return known && !few && b.length() >= hlsFewestParts*cfg.Part
}

// firstEnd returns where the first segment ends, at the latest. The second one ends at the next
// keyframe, which must not be near.
func (b *hlsBegin) firstEnd(s *stream) time.Duration {
	interval := b.interval(s)
	if end := b.keyAt + interval; b.keys > 0 && b.length() < end {
		return min(b.length(), end-min(hlsShortest, interval/4))
	}
	return b.length()
}

// config returns what the window is made with. The target duration fits a whole number of groups of pictures, and a long
// one if their length is not known.
func (b *hlsBegin) config(s *stream, m mp4.Movie) hls.Config {
	cfg := &s.hub.cfg.HLS
	segment := cfg.Segment
	switch group := b.interval(s); {
	case !m.Video:
	case group > 0:
		segment = (segment - hlsEarly + group - 1) / group * group
	default:
		segment = max(5*segment, b.length())
	}
	target := (segment + 900*time.Millisecond).Truncate(time.Second) // 2.1 s is 2 s
	target = min(max(target, time.Second), hlsLongest)
	at := time.Now()
	return hls.Config{
		Epoch: uint64(at.UnixMicro()), FirstMSN: cfg.firstMSN(at), // no two nodes begin in the same microsecond
		Target: target, Part: min(b.part(m, cfg.Part), target), Segment: min(cfg.Segment, target),
		Segments: cfg.Segments, MaxBytes: cfg.MaxBytes,
	}
}

// firstMSN returns the number of the first segment of a window that begins at a time. It is more than a window of the
// name had before, as a rule: a segment takes longer than that.
func (c *HLSConfig) firstMSN(at time.Time) uint64 {
	return uint64(at.Unix() / int64(max(1, c.Segment/time.Second)))
}

// part returns how long parts are at most, in whole milliseconds: about wanted, and so long that each has 85% of it.
//
// Frames that are not longer than 15% of a part fit always, and even ones if some number of them fits. Video of at least
// 23.9 frames a second does, whatever its rate is later. Where video is slower, or uneven, its audio makes the parts.
func (b *hlsBegin) part(m mp4.Movie, wanted time.Duration) time.Duration {
	least, most := time.Hour, time.Duration(0) // of the fragments that make parts
	audio := false
	for i := range b.list {
		audio = audio || b.list[i].Sounds > 0
		d := b.list[i].End - b.list[i].Start
		if d > 0 && (b.list[i].Pictures > 0) == m.Video {
			least, most = min(least, d), max(most, d)
		}
	}
	part := wanted
	if m.Video {
		part = max(part, hlsVideoPart)
	}
	switch {
	case m.Video && audio || most == 0:
	case most-least > hlsEven:
		part = max(part, most*100/15)
	default:
		for {
			n := max(1, (part-hlsJitter)/most)
			if n*most+hlsJitter <= part && 100*(n*most-hlsJitter) >= 85*part {
				break
			}
			part += time.Millisecond
		}
	}
	return (part + time.Millisecond - 1).Truncate(time.Millisecond)
}
