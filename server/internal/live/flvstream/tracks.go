package flvstream

import "github.com/millrace-io/millrace/media/flv"

// Flags of an FLV header.
const (
	VideoFlag = 1
	AudioFlag = 4
)

// TrackFlag returns the flag of an FLV header for tracks of type t, or 0 if there is no such flag.
func TrackFlag(t flv.Type) uint32 {
	switch t {
	case flv.TypeVideo:
		return VideoFlag
	case flv.TypeAudio:
		return AudioFlag
	}
	return 0
}

// Interleave is how far, in ms, a frame may be behind the latest timestamp of the stream. If a
// frame is further behind, the publisher's clock is assumed to have restarted.
const Interleave = 5000

// TrackWait is how long, in ms, to wait for further tracks after the first frame of a stream.
// Publishers send all sequence headers at the beginning, but audio frames may come before the video
// header.
const TrackWait = 1000

// A TrackTimer measures the time since the first frame. The timestamps of the frames serve as the
// clock.
type TrackTimer struct {
	began bool   // a frame has come, so since is set
	since uint32 // time of the first frame, in ms
}

// Passed reports whether TrackWait has passed since the first frame. The argument ts is the
// timestamp of the current frame, in ms.
func (h *TrackTimer) Passed(ts uint32) bool {
	if !h.began || int32(ts-h.since) < 0 { // timestamps may go back and restart
		h.began, h.since = true, ts
	}
	return ts-h.since >= TrackWait
}
