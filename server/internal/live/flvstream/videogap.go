package flvstream

import (
	"github.com/millrace-io/millrace/media/flv"
)

// VideoGapAfter is the time without video, in ms, after which new viewers start with audio. It is
// long because some encoders of slides send a frame only every few seconds. Any video frame ends
// the gap, because a keyframe will follow.
const VideoGapAfter = 10_000

// A VideoGap detects that video has stopped, or was never sent, while audio continues. New viewers
// then start with audio, because they would otherwise wait forever for video.
//
// There is no gap while the stream still has a keyframe at which viewers can start. x264, for
// example, may hold back the frames of a still image for forty seconds. Viewers need the old
// keyframe to decode them.
type VideoGap struct {
	Open bool // there is a gap

	counting bool // audio has come since the last video frame
	// Timestamp of the first audio frame since the last video frame. The time without video is
	// counted from this timestamp. The timestamp of the video frame is not used, because the
	// timestamps of video and audio may differ.
	since uint32
}

// Note processes the next tag, and reports whether there is a gap. hasKeyframe must report whether
// the stream still has a keyframe at which viewers can start.
func (g *VideoGap) Note(t flv.Tag, hasKeyframe func() bool) bool {
	switch {
	case t.Packet != flv.PacketFrame || t.Track != 0: // viewers start with the default track
	case t.Type == flv.TypeVideo:
		g.Open, g.counting = false, false
	case !g.counting || int32(t.Timestamp-g.since) < 0: // or the timestamps have restarted
		g.counting, g.since = true, t.Timestamp
	case t.Timestamp-g.since >= VideoGapAfter && !g.Open:
		g.Open = !hasKeyframe()
	}
	return g.Open
}
