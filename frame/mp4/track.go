package mp4

import (
	"math"
	"time"

	"github.com/millrace-io/millrace"
)

// sample is one picture, or one frame of sound.
type sample struct {
	at       int64  // decoding time in the track's units
	duration uint32 // to the next sample
	size     uint32
	shift    int32 // from decoding to showing
	key      bool
}

// track collects samples. The newest sample is open: its duration is known when the next one comes.
type track struct {
	id       uint32
	conf     *config // nil before the first sequence header
	expected bool    // the first fragment waits for the first sequence header

	done     []sample
	doneData millrace.Chain // the bytes of done, in order
	open     sample         // the newest sample, also after it was closed
	openData millrace.Chain // the bytes of open
	isOpen   bool

	floor int64 // every later sample begins here or later
	usual int64 // from the picture before to the newest one; 0 before the second picture
	next  int64 // where the sample after the newest one is expected; sound only

	// Invariant: each sample of done ends where the next one begins.
}

// waiting counts the samples and bytes that the track holds.
func (t *track) waiting() (samples, bytes int) {
	samples = len(t.done)
	if t.isOpen {
		samples++
	}
	return samples, t.doneData.Len() + t.openData.Len()
}

// close ends the open sample at the given time. The next sample may begin later, in another fragment: players hold the
// picture until then (ISO/IEC 14496-12, 8.8.12.1).
func (t *track) close(at int64) {
	if !t.isOpen {
		return
	}
	t.open.duration = uint32(min(at-t.open.at, math.MaxUint32))
	t.done = append(t.done, t.open)
	t.doneData.Merge(&t.openData)
	t.isOpen = false
	t.floor = at
}

// finish ends the open sample without a successor: a picture lasts as long as the one before, sound as long as its
// frame.
func (t *track) finish() {
	if !t.isOpen {
		return
	}
	t.close(t.open.at + t.step())
}

// step returns how long the newest sample is assumed to last, in the track's units.
func (t *track) step() int64 {
	if t.conf.width > 0 && t.usual > 0 {
		return t.usual
	}
	return int64(t.conf.step)
}

// length returns step in milliseconds, rounded up, and at most maxBack: after a pause, step says nothing about the
// newest picture.
func (t *track) length() int64 {
	scale := int64(t.conf.scale)
	return min((t.step()*1000+scale-1)/scale, maxBack)
}

// duration returns how long the complete samples last. There is at least one.
func (t *track) duration() time.Duration {
	last := &t.done[len(t.done)-1]
	n := last.at + int64(last.duration) - t.done[0].at
	scale := int64(t.conf.scale)
	return time.Duration(n/scale)*time.Second + time.Duration(n%scale)*time.Second/time.Duration(scale)
}

// start opens a sample. It takes ownership of data.
func (t *track) start(s sample, data *millrace.Chain) {
	if t.open.size > 0 {
		t.usual = s.at - t.open.at
	}
	t.open, t.isOpen = s, true
	t.openData.Merge(data)
	t.floor = s.at + 1
	t.next = s.at + int64(t.conf.step)
}

// rescale changes the units of time. Samples must not overlap across the change, because the old sequence header may
// come back and viewers of earlier fragments then go on.
func (t *track) rescale(from, to uint32) {
	t.usual, t.open = 0, sample{}
	if from != to {
		t.floor = (t.floor*int64(to) + int64(from) - 1) / int64(from)
		t.next = t.next * int64(to) / int64(from)
	}
}

// release gives back the samples that wait.
func (t *track) release() {
	t.doneData.Release()
	t.openData.Release()
	t.done, t.isOpen = t.done[:0], false
}

// maxDrift is how far the FLV time of a frame of sound may be from the end of its predecessor because of rounding: both
// times are whole milliseconds, each up to 1 ms off.
const maxDrift = 2 // ms

// videoTime places a picture at ms. Two pictures never have the same decoding time.
func (t *track) videoTime(ms int64) int64 { return max(ms, t.floor) }

// audioTime places a frame of sound at ms, or right behind its predecessor if rounding explains the difference, so that
// sound has neither gaps nor overlaps.
func (t *track) audioTime(ms int64) int64 {
	rate := int64(t.conf.scale)
	at := (ms*rate + 500) / 1000
	drift := at - t.next
	if limit := maxDrift * rate / 1000; t.floor > 0 && -limit <= drift && drift <= limit {
		at = t.next
	}
	return max(at, t.floor)
}
