package flvstream

import (
	"github.com/millrace-io/millrace/media/flv"
)

// VideoGapAfter is how long, in ms, a stream may continue without a video frame. After that, new
// viewers no longer wait for video. The time is this long because encoders of slides send a frame
// only every few seconds.
//
// Any video frame restarts the time, not only a keyframe, because video that has frames also has
// keyframes.
const VideoGapAfter = 10_000

// A VideoGap detects that video has stopped while audio continues. The reason may be that the
// camera is off, or that a video sequence header announced video that never came. New viewers then
// start with audio, because they would otherwise wait forever.
//
// While the stream keeps a keyframe at which viewers can start, there is no gap. x264 may hold back
// forty frames of a still image, perhaps for forty seconds. Viewers who start with audio could not
// decode these frames without the keyframe.
type VideoGap struct {
	Open bool // there is a gap

	counting bool // audio has come since the last video frame
	// Time of the first audio frame since the last video frame. Later audio is compared with this
	// time and not with the video, because video may have other timestamps.
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
