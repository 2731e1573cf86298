package flvstream

import (
	"bytes"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/media/flv"
)

// A Continuation adapts the tags of a publisher to the earlier publishers: the stream's clock
// advances by the time that has passed, and viewers get no video frame without the frames that it
// refers to.
//
// The zero value leaves out headers that are known, and changes nothing else.
type Continuation struct {
	timed  bool   // the stream has a clock: there was a frame
	last   uint32 // the stream's time at the last frame before; nothing is put before it
	lastAt int64  // when that was published
	begun  bool   // a frame has come, so shift is known
	shift  uint32 // added to the publisher's times
	// A frame came so long after last that none is put before it; last is not looked at, which
	// wraps.
	past     bool
	needsKey bool // drop video up to the next keyframe
}

// Continue returns a Continuation for the next publisher of a stream. If timed, the last frame had
// the time last and was published at lastAt, in ns of a monotonic clock.
func Continue(timed bool, last uint32, lastAt int64) *Continuation {
	return &Continuation{timed: timed, last: last, lastAt: lastAt, needsKey: true}
}

// Begin takes the next tag, which came at a time of the same clock. It reports whether t is the
// publisher's first frame, in a stream that had frames before: those are up to Last.
func (n *Continuation) Begin(t flv.Tag, at int64) bool {
	if t.Packet != flv.PacketFrame || !n.timed || n.begun {
		return false
	}
	n.begun, n.shift = true, n.due(at)-t.Timestamp
	return true
}

// Last returns the stream's time at the last frame before the continuation.
func (n *Continuation) Last() uint32 { return n.last }

// Fit adapts t, the tag that continues the stream, and c, which holds all of t. starts and preamble
// are the stream's; enc makes the header of a tag with a new time. It returns false if t must be
// dropped. Begin has seen t.
func (n *Continuation) Fit(
	t *flv.Tag, c *millrace.Chain, at int64, starts *StartFinder, preamble *Preamble,
	enc *flv.Encoder,
) bool {
	switch {
	case t.Type != flv.TypeVideo || t.Packet != flv.PacketFrame || !n.needsKey:
	case !t.Key || starts.Secondary(*t):
		return false
	default:
		n.needsKey = false
	}
	if part := preamble.Part(*t); part != nil && sameTag(part, c) {
		return false
	}
	if ts := n.time(t, at); ts != t.Timestamp {
		var moved millrace.Chain
		enc.Retime(&moved, c, ts)
		c.Release()
		c.Merge(&moved)
		t.Timestamp = ts
	}
	return true
}

// due is the stream's time at a time of now.
func (n *Continuation) due(at int64) uint32 { return n.last + uint32((at-n.lastAt)/1e6) }

// time returns the time of t in the stream. Encoders give the time 0 to tags before the first
// frame, so those times say nothing about the encoder's clock. If the clock steps back early in the
// stream, it starts again from there.
func (n *Continuation) time(t *flv.Tag, at int64) uint32 {
	ts, frame := t.Timestamp+n.shift, t.Packet == flv.PacketFrame
	ahead := int32(ts - n.last)
	switch {
	case !n.timed:
		return t.Timestamp
	case !n.begun:
		return n.due(at)
	case frame && n.past:
	case frame && ahead > Interleave:
		n.past = true
	case frame && ahead < -Interleave:
		n.shift = n.due(at) - t.Timestamp
		return n.due(at)
	case ahead < 0:
		return n.last
	}
	return ts
}

// sameTag reports whether two whole tags are equal but for their times.
func sameTag(a, b *millrace.Chain) bool {
	const from, to = 4, 8 // of the time in a tag's header
	if a.Len() != b.Len() {
		return false
	}
	x, y := a.Bytes(), b.Bytes()
	return bytes.Equal(x[:from], y[:from]) && bytes.Equal(x[to:], y[to:])
}
