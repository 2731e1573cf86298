package broadcast

import "fmt"

// A Reason says why a cursor lost frames.
type Reason uint8

const (
	// NotMissed is the zero Reason: nothing was lost.
	NotMissed Reason = iota
	// LagBytes, LagFrames and LagTime mean that the cursor exceeded MaxLagBytes, MaxLagFrames or
	// MaxLagTime.
	LagBytes
	LagFrames
	LagTime
	// Evicted means that the ring dropped the frames because of MaxBytes, MaxFrames or
	// [Ring.Evict].
	Evicted
	// Refused means that Publish refused a frame (FrameTooLargeError). The frames up to the next
	// keyframe are then unusable.
	Refused

	reasons // number of reasons
)

var reasonNames = [reasons]string{"not_missed", "lag_bytes", "lag_frames", "lag_time", "evicted",
	"refused"}

// String returns a name for log lines and metrics, such as "lag_bytes".
func (r Reason) String() string {
	if r < reasons {
		return reasonNames[r]
	}
	return fmt.Sprintf("Reason(%d)", uint8(r))
}

// Missed describes the frames that a cursor has lost since it last reported lost frames. The zero
// Missed means that no frames were lost.
type Missed struct {
	Frames int
	// Bytes is the total length of the lost frames. A frame that Publish refused counts as 0 bytes.
	Bytes int64
	// Why is the reason of the first loss.
	Why Reason
}

// String returns "nothing" or, say, "12 frames, 34567 bytes (lag_time)".
func (m Missed) String() string {
	if m.Why == NotMissed {
		return "nothing"
	}
	return fmt.Sprintf("%d frames, %d bytes (%v)", m.Frames, m.Bytes, m.Why)
}
