package flvstream

import (
	"github.com/millrace-io/millrace/media/flv"
)

// VideoGapAfter is how long, in ms, a stream may continue without a video frame. After that, new
// viewers no longer wait for video. Frames of any kind count, because video that has frames also
// has keyframes. Encoders of slides send a frame every few seconds.
const VideoGapAfter = 10_000

// A VideoGap detects that video has stopped while audio continues. Either the camera is off, or the
// video sequence header announced video that never came. New viewers then start with audio, because
// they would otherwise wait forever. There is no gap while the stream keeps a keyframe at which
// viewers can start. This exception is needed because x264 may hold back forty frames of a still
// image, perhaps for forty seconds. Those frames cannot be decoded without the kept keyframe.
type VideoGap struct {
	Open bool // there is a gap

	counting bool // audio has come since the last video frame
	// Time of the first such audio frame. Later audio is compared with it, because video may have
	// other timestamps.
	since uint32
}

// Note processes the next tag, and reports whether there is a gap. kept reports whether the stream
// still keeps a keyframe at which viewers can start.
func (g *VideoGap) Note(t flv.Tag, kept func() bool) bool {
	switch {
	case t.Packet != flv.PacketFrame || t.Track != 0: // viewers start with the default track
	case t.Type == flv.TypeVideo:
		g.Open, g.counting = false, false
	case !g.counting || int32(t.Timestamp-g.since) < 0: // or the timestamps have restarted
		g.counting, g.since = true, t.Timestamp
	case t.Timestamp-g.since >= VideoGapAfter && !g.Open:
		g.Open = !kept()
	}
	return g.Open
}
