package mp4

import (
	"cmp"
	"math"
	"time"

	"github.com/millrace-io/millrace"
)

// A sample is one video or audio frame.
type sample struct {
	at       int64  // decoding time in the track's units
	duration uint32 // time from this sample to the next sample
	size     uint32
	shift    int32 // time from decoding to display
	key      bool
}

// A track collects the samples of video or audio. Each sample passes through three states:
//
//   - A held sample has no time yet. It waits for the clock.
//   - The open sample has a time, but no duration. It ends when the next sample begins.
//   - A done sample has a time and a duration, and waits for the next fragment.
type track struct {
	id       uint32
	conf     *config // nil before the first sequence header
	expected bool    // the first fragment waits for the sequence header

	held     []sample       // samples that have no time yet
	heldData millrace.Chain // the data of the held samples, in order

	done     []sample
	doneData millrace.Chain // the data of the done samples, in order
	open     sample         // the newest sample with a time, even after it was closed
	openData millrace.Chain // the data of the open sample
	isOpen   bool

	floor int64 // minimum decoding time of the next sample
	usual int64 // usual time between two video frames in ms; 0 before the second frame
	last  int64 // time of the newest video frame in the stream, in ms

	// Audio only: see audioTime.
	timed bool  // next is set
	next  int64 // end of the newest frame, which is the expected start of the next frame
	// far counts consecutive frames whose timestamps are more than maxDrift away from the expected
	// start (next), all in the same direction.
	far int
	// drift is the smallest distance between these timestamps and the expected start, in the
	// track's units. It is negative if the timestamps are earlier.
	drift int64
	debt  int64 // time to subtract from later frames, a little from each

	// Invariant: each done sample ends where the next sample begins.
}

func (t *track) waiting() (samples, bytes int) {
	samples = len(t.held) + len(t.done)
	if t.isOpen {
		samples++
	}
	return samples, t.heldData.Len() + t.doneData.Len() + t.openData.Len()
}

// close completes the newest sample, which lasts until the decoding time end. If the newest sample
// is already complete, close does nothing. If the next sample begins later than end, players show
// the last video frame until then (ISO/IEC 14496-12, 8.8.12.1).
func (t *track) close(end int64) {
	if !t.isOpen {
		return
	}
	t.open.duration = uint32(min(end-t.open.at, math.MaxUint32))
	t.done = append(t.done, t.open)
	t.doneData.Merge(&t.openData)
	t.isOpen = false
	t.floor = end
}

// finish ends the newest sample with the expected duration, because no sample follows.
func (t *track) finish() {
	if !t.isOpen {
		return
	}
	t.close(t.open.at + t.step())
}

// step returns the expected duration of the newest sample, in the track's units.
func (t *track) step() int64 {
	if t.conf.width > 0 && t.usual > 0 {
		return t.usual
	}
	return int64(t.conf.step)
}

// length returns the expected duration of a frame, in milliseconds rounded up, but at most maxBack.
// The expected duration comes from the distance between earlier frames. A distance of more than
// maxBack was probably a pause, which says nothing about the next frame.
func (t *track) length() int64 {
	scale := int64(t.conf.scale)
	return min((t.step()*1000+scale-1)/scale, maxBack)
}

// duration returns the total duration of the first n complete samples. n must be at least 1.
func (t *track) duration(n int) time.Duration {
	last := &t.done[n-1]
	return toTime(last.at+int64(last.duration)-t.done[0].at, t.conf.scale)
}

// toTime converts n time units to a Duration. scale is the number of units per second.
func toTime(n int64, scale uint32) time.Duration {
	s := int64(scale)
	return time.Duration(n/s)*time.Second + time.Duration(n%s)*time.Second/time.Duration(s)
}

// start makes s the newest sample of the track. The sample stays open, without a duration, until
// the next sample begins. start takes ownership of data.
func (t *track) start(s sample, data *millrace.Chain) {
	t.open, t.isOpen = s, true
	t.openData.Merge(data)
	t.floor = s.at + 1
}

// rescale changes the track's time scale, in units per second. The minimum time of the next sample
// is rounded up, so that the sample does not overlap earlier samples.
func (t *track) rescale(oldScale, newScale uint32) {
	t.usual, t.open = 0, sample{}
	if oldScale != newScale {
		t.floor = (t.floor*int64(newScale) + int64(oldScale) - 1) / int64(oldScale)
		t.timed, t.far, t.debt = false, 0, 0
	}
}

func (t *track) release() {
	t.heldData.Release()
	t.doneData.Release()
	t.openData.Release()
	t.held, t.done, t.isOpen = t.held[:0], t.done[:0], false
}

// An audio frame usually begins where the previous frame ends. Its duration is computed from its
// number of samples. Timestamps are less exact, because encoders set the timestamp when a frame is
// complete, or give several frames the same timestamp. But the computed start times are corrected
// in two cases:
//
//   - The timestamps of driftAhead consecutive frames are more than maxDrift after the computed
//     start times.
//   - The timestamps of driftBehind consecutive frames are more than maxDrift before the computed
//     start times.
//
// driftBehind is larger, because early timestamps are common: if several frames have the same
// timestamp, the timestamp is early for all frames after the first.
const (
	maxDrift    = 2 // in frames
	driftAhead  = 4
	driftBehind = 64
)

// time returns the decoding time of a sample, in the track's units. ms is its time in the stream.
func (t *track) time(ms int64) int64 {
	if t.conf.width > 0 {
		return t.videoTime(ms)
	}
	return t.audioTime(ms)
}

// videoTime returns the decoding time for a video frame. The argument ms is the frame's time in the
// stream. Usually both times are equal.
//
// The time in the stream may go back by up to maxBack, but decoding times must always increase. If
// the time in the stream goes back, each frame lasts half as long as usual until both times are
// equal again. If the frames were much shorter, the video would visibly jump.
func (t *track) videoTime(ms int64) int64 {
	if step := ms - t.last; t.open.size > 0 && step > 0 && (t.last == t.open.at || step < t.usual) {
		t.usual = step
	}
	t.last = ms
	return max(ms, t.floor, min(t.open.at+t.usual/2, ms+2*maxBack))
}

// audioTime returns the decoding time for an audio frame. ms is the frame's time in the stream.
// Usually the decoding time is the end of the previous frame, so that audio has neither gaps nor
// overlaps.
func (t *track) audioTime(ms int64) int64 {
	rate, step := int64(t.conf.scale), int64(t.conf.step)
	at := (ms*rate + 500) / 1000
	limit := maxDrift * step
	drift := at - t.next
	if !t.timed || drift > max(maxAhead*rate/1000, limit) { // there is a gap in the audio
		t.timed, t.next, t.debt, drift = true, at, 0, 0
	}
	switch {
	case drift > limit && (t.far == 0 || t.drift > 0):
		t.drift = min(drift, cmp.Or(t.drift, drift))
		t.far++
	case drift < -limit && (t.far == 0 || t.drift < 0):
		t.drift = max(drift, cmp.Or(t.drift, drift))
		t.far++
	default:
		t.drift, t.far = 0, 0
	}
	switch {
	case t.drift > 0 && t.far >= driftAhead && t.isOpen:
		// The previous frame lasts until this frame begins.
		t.next += t.drift
		t.drift, t.far = 0, 0
	case t.drift < 0 && t.far == driftBehind:
		t.debt = -t.drift
		t.drift, t.far = 0, 0
	}
	give := min(t.debt, step/2)
	t.debt -= give
	at = max(t.next-give, t.floor)
	t.next = at + step
	return at
}
