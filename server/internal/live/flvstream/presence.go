package flvstream

import "github.com/millrace-io/millrace/media/flv"

const (
	// audioAbsentAfter and videoAbsentAfter are how long a stream may continue, in ms, without a
	// frame of a track before that track counts as absent. Audio frames arrive many times a second;
	// encoders of slides and still images may pause the video.
	audioAbsentAfter = 5_000
	videoAbsentAfter = 30_000
	// headerAbsentAfter is the same for a track that has sent its sequence header alone.
	headerAbsentAfter = 5_000
	// longestStep limits how much one frame adds to these times, in ms, so that a single wrong
	// timestamp decides nothing.
	longestStep = 500
)

// A Presence tells which tracks a publisher really sends. Browsers wait for a track that was
// announced and has no frames, so an absent one must leave the headers of a stream.
type Presence struct{ video, audio trackPresence }

// A trackPresence counts how long the other track has gone on without this one.
type trackPresence struct {
	sent    bool   // the publisher has sent a frame, or the sequence header
	timed   bool   // last is known
	last    uint32 // time of the latest frame
	without uint32 // ms that the other track has gone on since then
}

// Note takes the next tag of a publisher.
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
			p.audio.without += p.video.step(t.Timestamp)
		}
	case flv.TypeAudio:
		if !p.audio.sent {
			p.audio.sent, p.audio.without = true, 0
		}
		if frame {
			p.audio.without = 0
			p.video.without += p.audio.step(t.Timestamp)
		}
	}
}

// step returns how far the track has gone on with a frame at a time.
func (p *trackPresence) step(at uint32) uint32 {
	ahead := int32(at - p.last)
	if !p.timed || ahead < 0 {
		ahead = 0
	}
	p.timed, p.last = true, at
	return uint32(min(ahead, longestStep))
}

// Absent reports whether the publisher does not send the tracks of a type, or has stopped sending
// them.
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
