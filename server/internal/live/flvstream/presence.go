package flvstream

import "github.com/millrace-io/millrace/media/flv"

const (
	// audioAbsentAfter and videoAbsentAfter are how long, in ms, a track may send no frames before
	// the track counts as absent. Audio frames arrive many times a second. The limit for video is
	// longer, because encoders of slides and still images may pause the video.
	audioAbsentAfter = 5_000
	videoAbsentAfter = 30_000
	// headerAbsentAfter is how long, in ms, a track that has sent only a sequence header may send
	// no frames before the track counts as absent.
	headerAbsentAfter = 5_000
	// longestStep is the maximum time, in ms, that one frame of a track adds to
	// trackPresence.without of the other track. The limit reduces the effect of a wrong timestamp.
	longestStep = 500
)

// A Presence determines which tracks a publisher really sends. Browsers wait for every announced
// track, so absent tracks must be removed from the headers of a stream.
type Presence struct{ video, audio trackPresence }

// A trackPresence measures how long a track has sent no frames. The timestamps of the other track
// serve as the clock.
type trackPresence struct {
	sent    bool   // the publisher has sent a frame or the sequence header
	timed   bool   // a frame has come, so last is set
	last    uint32 // time of the latest frame, in ms
	without uint32 // how long the other track has continued since the latest frame, in ms
}

// Note records the tag t. The caller must pass every tag that the publisher sends.
func (p *Presence) Note(t flv.Tag) {
	frame := t.Packet == flv.PacketFrame
	if !frame && !t.SequenceHeader {
		return
	}
	switch t.Type {
	case flv.TypeVideo:
		p.video.sent = true
		if frame {
			p.video.without = 0
			p.audio.wait(p.video.noteFrame(t.Timestamp))
		}
	case flv.TypeAudio:
		if !p.audio.sent {
			p.audio.sent, p.audio.without = true, 0
		}
		if frame {
			p.audio.without = 0
			p.video.wait(p.audio.noteFrame(t.Timestamp))
		}
	}
}

// noteFrame records a frame with the timestamp ts. It returns the time since the track's previous
// frame, in ms, but not more than longestStep.
func (p *trackPresence) noteFrame(ts uint32) uint32 {
	ahead := int32(ts - p.last)
	if !p.timed || ahead < 0 {
		ahead = 0
	}
	p.timed, p.last = true, ts
	return uint32(min(ahead, longestStep))
}

func (p *trackPresence) wait(ms uint32) { p.without = min(p.without+ms, 1<<30) }

// Absent reports whether the publisher has never sent a track of type t, or has stopped sending it.
func (p *Presence) Absent(t flv.Type) bool {
	track, most := &p.video, uint32(videoAbsentAfter)
	if t == flv.TypeAudio {
		track, most = &p.audio, audioAbsentAfter
	}
	switch {
	case !track.sent:
		most = TrackWait
	case !track.timed:
		most = headerAbsentAfter
	}
	return track.without >= most
}
