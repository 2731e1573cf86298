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
// camera is off, or that the publisher has announced video but never sent any. New viewers then
// start with audio, because they would otherwise wait forever for video.
//
// A pause in the video is not a gap while the stream keeps a keyframe at which viewers can start.
// The encoder x264, for example, may hold back the frames of a still image for forty seconds. A
// viewer can decode these frames only with the keyframe.
type VideoGap struct {
	Open bool // there is a gap

	counting bool // audio has come since the last video frame
	// Timestamp of the first audio frame since the last video frame. The time without video is
	// counted from it. The timestamp of the video frame is not used, because the timestamps of
	// video and audio may differ.
	since uint32
}

// Note processes the next tag, and reports whether video has stopped while audio continues. Note
// calls kept to learn whether the stream still keeps a keyframe at which viewers can start. If the
// stream keeps one, video does not count as stopped yet.
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
