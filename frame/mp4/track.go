package mp4

import (
	"math"

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

// track collects samples. The newest one is open: how long it lasts is known when the next one comes.
//
// Invariants:
//
//	doneData holds the bytes of done in order; openData those of open
//	each sample of done ends where the next one begins
//	every sample to come begins at floor or later
type track struct {
	id   uint32
	conf *config // nil before the first sequence header

	done     []sample
	doneData millrace.Chain
	open     sample // once it is closed, what it was
	openData millrace.Chain
	isOpen   bool

	floor int64
	usual int64 // from the picture before to the newest one; 0 before the second one
	next  int64 // where the sample after the newest one is expected; sound only
}

// waiting counts the samples and bytes that the track holds.
func (t *track) waiting() (samples, bytes int) {
	samples = len(t.done)
	if t.isOpen {
		samples++
	}
	return samples, t.doneData.Len() + t.openData.Len()
}

// close ends the open sample at the given time. The next one may begin later: players go by where its fragment begins, and hold
// the picture until then (ISO/IEC 14496-12, 8.8.12.1).
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

// finish ends the open sample without a successor: a picture lasts as long as the one before, sound as long as it is.
func (t *track) finish() {
	if !t.isOpen {
		return
	}
	t.close(t.open.at + t.step())
}

// step tells how long the newest sample is taken to last, in the track's units.
func (t *track) step() int64 {
	if t.conf.width > 0 && t.usual > 0 {
		return t.usual
	}
	return int64(t.conf.step)
}

// length is step in milliseconds, rounded up. A pause before the newest picture does not say how long that one lasts.
func (t *track) length() int64 {
	scale := int64(t.conf.scale)
	return min((t.step()*1000+scale-1)/scale, maxBack)
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

// rescale goes on in other units of time. Samples still do not overlap, because the header that comes may be the one
// that the viewers of earlier fragments have: then they get what follows as well.
func (t *track) rescale(from, to uint32) {
	t.usual, t.open = 0, sample{}
	if from != to {
		t.floor = (t.floor*int64(to) + int64(from) - 1) / int64(from)
		t.next = t.next * int64(to) / int64(from)
	}
}

// release gives back everything that waits.
func (t *track) release() {
	t.doneData.Release()
	t.openData.Release()
	t.done, t.isOpen = t.done[:0], false
}

// maxDrift is how far a sound's time in FLV may be from where its predecessor ends and still be a matter of rounding: both
// are whole milliseconds, cut or rounded, which makes up to 1 ms each.
const maxDrift = 2 // ms

// videoTime places a picture at ms. Two pictures never have the same decoding time.
func (t *track) videoTime(ms int64) int64 { return max(ms, t.floor) }

// audioTime places a frame of sound at ms: right behind its predecessor when rounding explains the difference, so that sound
// has neither gaps nor overlaps, else where the stream says.
func (t *track) audioTime(ms int64) int64 {
	rate := int64(t.conf.scale)
	at := (ms*rate + 500) / 1000
	drift := at - t.next
	if limit := maxDrift * rate / 1000; t.floor > 0 && -limit <= drift && drift <= limit {
		at = t.next
	}
	return max(at, t.floor)
}
