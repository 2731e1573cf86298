package flvstream

import (
	"github.com/millrace-io/millrace/media/flv"
)

// VideoGapAfter is how long, in ms, a stream may continue without a video frame before new viewers
// stop waiting for the next one. If a video has frames, it also has keyframes. Encoders of slides
// send one every few seconds.
const VideoGapAfter = 10_000

// A VideoGap detects that video has stopped while audio continues. Either the camera is off, or the
// video sequence header announced video that never came. New viewers start with audio then, because
// they would otherwise wait forever. While a GOP at which a viewer can start is kept, there is no
// gap. This exception is needed for x264. It holds back forty frames of a still image, perhaps for
// forty seconds. The frames that it then sends cannot be decoded without their keyframe.
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
