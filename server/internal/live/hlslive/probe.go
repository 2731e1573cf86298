package hlslive

import (
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/media/hls"
	"github.com/millrace-io/millrace/media/mp4"
)

// A probe chooses the durations of segments and parts, which must not change later, from the first
// fragments of a window.
type probe struct {
	cfg    *Config
	source Source

	list  []probed
	line  mp4.Timeline
	bytes int64

	keys  int           // number of keyframes in list
	key   time.Duration // time of the last keyframe
	keyAt time.Duration // the same, relative to the beginning of the first fragment
	group time.Duration // the longest distance between two keyframes
}

type probed struct {
	Fragment
	body millrace.Chain
	end  time.Duration // relative to the beginning of the first fragment
}

func (p *probe) release() {
	for i := range p.list {
		p.list[i].body.Release()
	}
}

// add takes ownership of body.
func (p *probe) add(f Fragment, body *millrace.Chain) {
	if f.NewInit && len(p.list) > 0 || f.AfterLoss { // no player has seen the earlier fragments
		p.release()
		*p = probe{cfg: p.cfg, source: p.source}
		f.NewInit, f.AfterLoss = true, false
	}
	p.bytes += int64(body.Len())
	from, to := p.line.Add(f.FragmentInfo)
	if f.Pictures > 0 && f.Key {
		if p.keys++; p.keys > 1 {
			p.group = max(p.group, f.Start-p.key)
		}
		p.key, p.keyAt = f.Start, p.length()
	}
	b := probed{Fragment: f, end: p.length() + to - from}
	b.body.Merge(body)
	p.list = append(p.list, b)
}

func (p *probe) length() time.Duration {
	if len(p.list) == 0 {
		return 0
	}
	return p.list[len(p.list)-1].end
}

// movie describes the init segment. p must hold at least one fragment.
func (p *probe) movie() mp4.Movie { return *p.list[len(p.list)-1].Movie }

const (
	// minFragments is how many fragments are needed to determine their usual duration.
	minFragments = 6
	// minParts is the minimum length of the first segment, as a number of parts. Players that use
	// parts stay three parts before the end of the playlist (PART-HOLD-BACK).
	minParts = 3
	// maxFragments limits how many fragments are held. Two segments have only some hundreds.
	maxFragments = 1 << 12
	// maxTarget is the longest target duration. Longer GOPs are divided.
	maxTarget = 16 * time.Second
	// videoPart is the maximum duration of a part with video. A part must last at least 85% of it,
	// 240 ms. At every frame rate from 23.9 to 60 frames per second, some whole number of frames
	// lasts from 240 to 282 ms, with a few milliseconds to spare for rounded timestamps. At 25
	// frames per second, a part has 6 or 7 frames.
	videoPart = 282 * time.Millisecond
	// jitter is how much the rounding of timestamps may add to the duration of a part.
	jitter = 2 * time.Millisecond
	// minRest is the minimum duration of the second segment; see firstEnd.
	minRest = 500 * time.Millisecond
	// A segment may be shorter than Config.Segment by earlyKey, if its keyframe comes early.
	// Otherwise it would be twice as long, and would double the delay of players.
	earlyKey = 50 * time.Millisecond
	// Durations that differ by up to evenSlack count as equal: timestamps are rounded, and clocks
	// are corrected.
	evenSlack = 5 * time.Millisecond
)

// interval returns the distance between two keyframes, or 0 if it is unknown.
func (p *probe) interval() time.Duration {
	if p.keys > 1 {
		return p.group
	}
	return p.source.KeyInterval()
}

// enough reports whether the fragments suffice for the first segment, and for choosing the
// durations of segments and parts.
func (p *probe) enough() bool {
	if len(p.list) == 0 {
		return false
	}
	if len(p.list) >= maxFragments || p.bytes > p.cfg.MaxBytes/4 {
		return true
	}
	wait := maxTarget
	// If the stream has had a keyframe, wait for the next one for up to maxTarget. It may come
	// late: if the video consists of slides, a slide is sent only when the next slide exists. If
	// the stream has never had a keyframe, wait only a short time.
	if p.keys == 0 && !p.source.ExpectsKey() {
		wait = 2 * p.cfg.Segment
	}
	known := !p.movie().Video || p.interval() > 0 || p.length() >= wait
	// Wait for at least minFragments fragments. Fewer are enough if they last as long as two
	// segments, for example because the video consists of slides.
	few := len(p.list) < minFragments && p.length() < 2*p.cfg.Segment
	return known && !few && p.length() >= minParts*p.cfg.Part
}

// firstEnd returns the latest time at which the first segment may end: minRest before the next
// keyframe, at which the second segment ends.
func (p *probe) firstEnd() time.Duration {
	interval := p.interval()
	if end := p.keyAt + interval; p.keys > 0 && p.length() < end {
		return min(p.length(), end-min(minRest, interval/4))
	}
	return p.length()
}

// config returns the configuration of the hls.Window. A segment consists of whole GOPs, so the
// target duration is about Config.Segment, or more if the GOPs require it. If their length is
// unknown, the target duration allows for a long GOP.
func (p *probe) config() hls.Config {
	segment := p.cfg.Segment
	switch group := p.interval(); {
	case !p.movie().Video:
	case group > 0:
		segment = (segment - earlyKey + group - 1) / group * group
	default:
		segment = max(5*segment, p.length())
	}
	target := (segment + 900*time.Millisecond).Truncate(time.Second) // less than 2.1 s becomes 2 s
	target = min(max(target, time.Second), maxTarget)
	at := time.Now()
	return hls.Config{
		// The epoch is unique, because no two nodes begin a window in the same microsecond.
		Epoch: uint64(at.UnixMicro()), FirstMSN: p.cfg.FirstMSN(at),
		Target: target, Part: min(p.part(), target), Segment: min(p.cfg.Segment, target),
		Segments: p.cfg.Segments, MaxBytes: p.cfg.MaxBytes,
	}
}

// part returns the maximum duration of a part, in whole milliseconds. It is at least Config.Part
// and, with video, videoPart. A part consists of whole fragments, and must last at least 85% of the
// maximum.
//
// For video with audio, this is enough: when a video frame is late, short fragments of audio fill
// the part. For a single track, the maximum is increased until a whole number of equally long
// fragments lasts from 85% to 100% of it. If the fragments are not equally long, each must last at
// most 15% of it.
func (p *probe) part() time.Duration {
	video := p.movie().Video
	least, most := time.Hour, time.Duration(0) // durations of the fragments that parts consist of
	audio := false
	for i := range p.list {
		f := &p.list[i]
		audio = audio || f.Sounds > 0
		d := f.End - f.Start
		if d > 0 && (f.Pictures > 0) == video {
			least, most = min(least, d), max(most, d)
		}
	}
	part := p.cfg.Part
	if video {
		part = max(part, videoPart)
	}
	switch {
	case video && audio || most == 0:
	case most-least > evenSlack:
		part = max(part, most*100/15)
	default:
		for {
			n := max(1, (part-jitter)/most)
			if n*most+jitter <= part && 100*(n*most-jitter) >= 85*part {
				break
			}
			part += time.Millisecond
		}
	}
	return (part + time.Millisecond - 1).Truncate(time.Millisecond)
}
