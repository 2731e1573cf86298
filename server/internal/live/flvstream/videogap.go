package flvstream

import (
	"github.com/millrace-io/millrace/media/flv"
)

// VideoGapAfter is how much of a stream, in ms, may pass without a video frame before new viewers
// stop waiting for the next one. While there are video frames, there are keyframes, too; encoders
// of slides send one every few seconds.
const VideoGapAfter = 10_000

// A VideoGap detects that video has stopped while audio continues: the camera is off, or the video
// sequence header announced video that never came. New viewers would wait forever, so they start
// with audio. There is no gap while a GOP is kept at which a viewer can start: x264 holds back
// forty frames of a still image, perhaps forty seconds, and the frames that it sends later cannot
// be decoded without their keyframe.
type VideoGap struct {
	Open bool // there is such a gap

	counting bool // there was audio since the last video frame
	// The first such audio. Audio is compared with audio, because video may have other timestamps.
	since uint32
}

// Note takes the next tag, and reports whether there is a gap. kept reports whether viewers can
// start at a keyframe that is kept.
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
