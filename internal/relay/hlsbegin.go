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
	bytes int64
}

type hlsBegun struct {
	fragment
	body millrace.Chain
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
	b.list = append(b.list, hlsBegun{fragment: f, body: *body})
	*body = millrace.Chain{}
}

// length returns how long the fragments are.
func (b *hlsBegin) length() time.Duration { return b.list[len(b.list)-1].End - b.list[0].Start }

const (
	// hlsFewest is how many fragments tell how long fragments are.
	hlsFewest = 6
	// hlsFewestParts is how long the first segment is in parts, at least: as far from the end as players of parts stay.
	hlsFewestParts = 3
	// hlsMost bounds the fragments that wait for a window: two segments have hundreds.
	hlsMost = 1 << 12
	// hlsLongest is the longest target duration. A longer group of pictures is cut.
	hlsLongest = 16 * time.Second
)

// enough reports whether the times of a window can be chosen, and what has come is enough for a first segment: the
// distance of key frames is known, or it is known to be longer than two segments.
func (b *hlsBegin) enough(s *stream, m mp4.Movie) bool {
	cfg := &s.hub.cfg.HLS
	if len(b.list) >= hlsMost || b.bytes > cfg.MaxBytes/4 {
		return true
	}
	known := !m.Video || s.keyInterval.Load() > 0 || b.length() >= 2*cfg.Segment
	return known && len(b.list) >= hlsFewest && b.length() >= hlsFewestParts*cfg.Part
}

// config returns what the window is made with.
//
// The target duration fits a whole number of groups of pictures, and a long one if their length is not known. A part is
// a whole number of pictures; if these are irregular, it is as long as the rules need to allow for the longest of them.
// It also fits whole fragments of the sound that comes in front of the first key frame.
func (b *hlsBegin) config(s *stream, m mp4.Movie) hls.Config {
	cfg := &s.hub.cfg.HLS
	group := time.Duration(s.keyInterval.Load()) * time.Millisecond
	segment := cfg.Segment
	switch {
	case !m.Video:
	case group > 0:
		segment = (segment + group - 1) / group * group
	default:
		segment = max(5*segment, b.length())
	}
	target := (segment + 900*time.Millisecond).Truncate(time.Second) // 2.1 s is 2 s
	target = min(max(target, time.Second), hlsLongest)

	most, least := time.Duration(0), time.Hour
	sound := time.Duration(0) // the longest fragment without a picture that fits a part, of a stream with pictures
	for i := range b.list {
		switch d := b.list[i].End - b.list[i].Start; {
		case d <= 0:
		case m.Video && b.list[i].Pictures == 0:
			if d <= cfg.Part {
				sound = max(sound, d)
			}
		default:
			most, least = max(most, d), min(least, d)
		}
	}
	part := cfg.Part
	if most == 0 { // nothing is known
		most = part
	}
	if most-least <= 5*time.Millisecond { // times are in whole milliseconds
		part = max(1, (part+most/2)/most) * most
	} else {
		part = max(part, most*100/15) // a part may be 15% shorter
	}
	if sound > 0 && part%sound*100 > part*15 {
		part += sound - part%sound
	}
	part = min((part + time.Millisecond - 1).Truncate(time.Millisecond), target)
	at := time.Now()
	// More than a window of the name had before, as a rule: a segment takes longer than that.
	first := uint64(at.Unix() / int64(max(1, cfg.Segment/time.Second)))
	return hls.Config{
		Epoch: uint64(at.UnixMicro()), FirstMSN: first, // no two nodes begin in the same microsecond
		Target: target, Part: part, Segment: min(cfg.Segment, target), Segments: cfg.Segments, MaxBytes: cfg.MaxBytes,
	}
}
