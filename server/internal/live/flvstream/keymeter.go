package flvstream

import (
	"cmp"
	"slices"
)

// A KeyMeter measures the distances between consecutive keyframes.
type KeyMeter struct {
	began bool     // a keyframe has come, so last is set
	last  uint32   // the time of the latest keyframe
	ms    [5]int64 // the latest distances, newest first; 0 if not measured yet
}

// Note records a keyframe with the timestamp ts.
func (k *KeyMeter) Note(ts uint32) {
	if ms := k.Group(ts); ms > 0 {
		copy(k.ms[1:], k.ms[:])
		k.ms[0] = ms
	}
	k.began, k.last = true, ts
}

// Longest returns the longer of the last two distances between keyframes, in ms.
func (k *KeyMeter) Longest() int64 { return max(k.ms[0], k.ms[1]) }

// Usual returns the usual distance between two keyframes, in ms. This is the second longest of the
// last five distances, so a single wrong timestamp or pause does not count. If there is only one
// distance, Usual returns it.
func (k *KeyMeter) Usual() int64 {
	sorted := k.ms
	slices.Sort(sorted[:])
	n := len(sorted)
	return cmp.Or(sorted[n-2], sorted[n-1])
}

// Group returns the time from the latest keyframe to a video frame with the timestamp ts, in ms.
func (k *KeyMeter) Group(ts uint32) int64 {
	if !k.began {
		return 0
	}
	return max(int64(int32(ts-k.last)), 0)
}

// Pause makes the meter ignore the distance from the latest keyframe to the next one.
func (k *KeyMeter) Pause() { k.began = false }
