package flvstream

import (
	"github.com/millrace-io/millrace/media/flv"
)

// VideoGapAfter is how much of a stream, in ms, passes without a picture before new viewers are no longer left to wait
// for the next one. As long as pictures come, a key frame comes too; encoders of slides send one every few seconds.
const VideoGapAfter = 10_000

// A VideoGap watches for pictures that stay away while the sound goes on: the camera is off, or its sequence header was
// a promise. New viewers would wait without an end, so they begin with the sound. There is no gap while a group of
// pictures is kept that a viewer can start at: x264 holds back forty of a still picture, which may be as many seconds,
// and what it sends after them cannot be decoded without their key frame.
type VideoGap struct {
	Open bool // there is such a gap

	counting bool   // there was sound since the last picture
	since    uint32 // the first such: sound is compared with sound, because encoders' pictures may have times of their own
}

// Note takes the next tag, and reports whether there is a gap. kept reports whether viewers can start
// at a keyframe that is kept.
func (g *VideoGap) Note(t flv.Tag, kept func() bool) bool {
	switch {
	case t.Packet != flv.PacketFrame || t.Track != 0: // viewers start at the default track
	case t.Type == flv.TypeVideo:
		g.Open, g.counting = false, false
	case !g.counting || int32(t.Timestamp-g.since) < 0: // or the times have begun anew
		g.counting, g.since = true, t.Timestamp
	case t.Timestamp-g.since >= VideoGapAfter && !g.Open:
		g.Open = !kept()
	}
	return g.Open
}
