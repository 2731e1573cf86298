package hlslive

import (
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/media/hls"
	"github.com/millrace-io/millrace/media/mp4"
)

// A probe holds the first fragments of a window. It uses them to choose the durations of segments
// and parts, which must not change later.
type probe struct {
	cfg    *Config
	source Source

	list  []probed
	line  mp4.Timeline
	bytes int64

	keys  int           // number of keyframes in list
	key   time.Duration // time of the last keyframe
	keyAt time.Duration // the same time, relative to the beginning of the first fragment
	group time.Duration // the longest time between two consecutive keyframes
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

// add adds the fragment f, and takes ownership of body.
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

// movie returns a description of the fragments' init segment. p must hold at least one fragment.
func (p *probe) movie() mp4.Movie { return *p.list[len(p.list)-1].Movie }

const (
	// minFragments is how many fragments are needed to determine their usual duration. If all
	// fragments together are at least twice as long as Config.Segment, fewer fragments are enough.
	minFragments = 6
	// minParts is the minimum number of parts in the first segment. Players that use parts stay
	// three parts before the end of the playlist (PART-HOLD-BACK).
	minParts = 3
	// maxFragments limits how many fragments are held before the first playlist is made. The limit
	// is high: two segments have only a few hundred fragments.
	maxFragments = 1 << 12
	// maxTarget is the longest target duration. Longer GOPs are divided.
	maxTarget = 16 * time.Second
	// videoPart is the maximum duration of a part with video. A part must last at least 85% of it,
	// 240 ms. From 23.9 to 60 frames per second, a whole number of frames always lasts from 240 to
	// 282 ms, with a few milliseconds to spare for rounded timestamps.
	videoPart = 282 * time.Millisecond
	// jitter is how much the rounding of timestamps may add to the duration of a part.
	jitter = 2 * time.Millisecond
	// minRest is the minimum duration of the second segment (see firstEnd), unless a quarter of the
	// keyframe interval is shorter.
	minRest = 500 * time.Millisecond
	// A segment may end at a keyframe that comes up to earlyKey before the duration Config.Segment
	// is reached. If the segment continued to the following keyframe, it would be twice as long,
	// and the delay of players would double.
	earlyKey = 50 * time.Millisecond
	// evenSlack is how much the durations of fragments may differ and still count as equal. Equal
	// durations differ slightly because timestamps are in whole milliseconds, and because clocks
	// are corrected.
	evenSlack = 5 * time.Millisecond
)

// keyInterval returns the time between two keyframes, or 0 if it is unknown.
func (p *probe) keyInterval() time.Duration {
	if p.keys > 1 {
		return p.group
	}
	return p.source.KeyInterval()
}

// isEnough reports whether the durations of segments and parts can be chosen, and a first segment
// can be made. If the stream has video, this also needs two keyframes, or a long wait for them.
func (p *probe) isEnough() bool {
	if len(p.list) == 0 {
		return false
	}
	if len(p.list) >= maxFragments || p.bytes > p.cfg.MaxBytes/4 {
		return true
	}
	wait := maxTarget
	// If the stream has had a keyframe, wait for the next keyframe for up to maxTarget. The next
	// keyframe may come late: if the video consists of slides, a slide is sent only when the next
	// slide exists. If the stream has never had a keyframe, wait only a short time.
	if p.keys == 0 && !p.source.ExpectsKey() {
		wait = 2 * p.cfg.Segment
	}
	known := !p.movie().Video || p.keyInterval() > 0 || p.length() >= wait
	few := len(p.list) < minFragments && p.length() < 2*p.cfg.Segment
	return known && !few && p.length() >= minParts*p.cfg.Part
}

// firstEnd returns the latest time at which the first segment may end. The second segment ends at
// the next keyframe, and must last at least minRest. The first segment therefore ends at least
// minRest before this keyframe.
func (p *probe) firstEnd() time.Duration {
	interval := p.keyInterval()
	if end := p.keyAt + interval; p.keys > 0 && p.length() < end {
		return min(p.length(), end-min(minRest, interval/4))
	}
	return p.length()
}

// config returns the configuration of the hls.Window that will make the playlist.
//
// A segment consists of whole GOPs. A GOP is a keyframe and the frames before the next keyframe.
// The target duration, which is the maximum duration of a segment, is about Config.Segment, or more
// if the GOPs require it. If the length of the GOPs is unknown, the target duration allows for a
// long GOP.
func (p *probe) config() hls.Config {
	segment := p.cfg.Segment
	switch group := p.keyInterval(); {
	case !p.movie().Video:
	case group > 0:
		segment = (segment - earlyKey + group - 1) / group * group
	default:
		segment = max(5*segment, p.length())
	}
	target := (segment + 900*time.Millisecond).Truncate(time.Second) // less than 2.1 s becomes 2 s
	target = min(max(target, time.Second), maxTarget)
	at := p.cfg.now()
	return hls.Config{
		// The epoch is unique, because no two nodes begin a window in the same microsecond.
		Epoch: uint64(at.UnixMicro()), FirstMSN: p.cfg.firstMSN(at),
		Target: target, Part: min(p.partDuration(), target), Segment: min(p.cfg.Segment, target),
		Segments: p.cfg.Segments, MaxBytes: p.cfg.MaxBytes,
	}
}

// partDuration returns the maximum duration of a part, in whole milliseconds. A part consists of
// whole fragments, and must last at least 85% of the maximum.
//
// The maximum is at least Config.Part. If the stream has video, it is also at least videoPart.
//
// If the stream has both video and audio, no more is needed, because short audio fragments can fill
// a part. If the stream has only one track, the maximum may have to be greater:
//   - If the fragments are equally long, a whole number of them must last from 85% to 100% of the
//     maximum.
//   - Otherwise, each fragment must last at most 15% of the maximum.
func (p *probe) partDuration() time.Duration {
	video := p.movie().Video
	// The shortest and longest duration of a fragment with video, or of a fragment without video if
	// the stream has no video.
	least, most := time.Hour, time.Duration(0)
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
