package flvstream

import "github.com/millrace-io/millrace/media/flv"

// Flags of an FLV header.
const (
	VideoFlag = 1
	AudioFlag = 4
)

// TrackFlag returns the flag of tracks of a type, or 0.
func TrackFlag(t flv.Type) uint32 {
	switch t {
	case flv.TypeVideo:
		return VideoFlag
	case flv.TypeAudio:
		return AudioFlag
	}
	return 0
}

// Interleave is how many ms a frame may be before the latest one because the tracks are not in
// step. A frame that is further back begins the publisher's times anew.
const Interleave = 5000

// TrackWait is how much of a stream, in ms, passes before it is taken to have all of its tracks.
// Publishers send their sequence headers at once, but audio may precede the video header.
const TrackWait = 1000

// A TrackTimer tells from the times of frames when TrackWait has passed.
type TrackTimer struct {
	began bool   // there was a frame
	since uint32 // the time of the first one
}

// Passed reports whether TrackWait has passed at a frame.
func (h *TrackTimer) Passed(at uint32) bool {
	if !h.began || int32(at-h.since) < 0 { // times may go back, and begin anew
		h.began, h.since = true, at
	}
	return at-h.since >= TrackWait
}
