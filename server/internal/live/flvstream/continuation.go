package flvstream

import (
	"bytes"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/media/flv"
)

// A Continuation adjusts a publisher's tags so that they continue the tags of earlier publishers.
// The timestamps advance by the time since the last frame. Video is dropped up to the first
// keyframe, because it refers to frames that viewers do not have.
//
// The zero value changes no timestamps. It drops only headers and metadata that the stream already
// has.
type Continuation struct {
	timed bool // the stream has a clock, because it has had a frame
	// The timestamp of the last frame before this publisher. No tag gets an earlier one. While past
	// is true, it is the timestamp of this publisher's latest frame.
	last   uint32
	lastAt int64  // when the last frame was published, in ns of a monotonic clock
	begun  bool   // the first frame has come, so shift is known
	shift  uint32 // added to the publisher's timestamps
	// Set by a frame that is more than 5 seconds (Interleave) after last. The following frames are
	// not compared with the last frame before this publisher: timestamps wrap around, so the
	// comparison would become wrong.
	past     bool
	needsKey bool // video is dropped up to the next keyframe
}

// Continue returns a Continuation for the next publisher of a stream. timed reports whether the
// stream has had a frame. If so, ts is the timestamp of the latest frame, in ms, and lastAt is the
// time of its publication, in ns of a monotonic clock.
func Continue(timed bool, ts uint32, lastAt int64) *Continuation {
	return &Continuation{timed: timed, last: ts, lastAt: lastAt, needsKey: true}
}

// Begin must be called with each tag before Fit. It reports whether t is the first frame of this
// publisher and an earlier publisher has also sent frames. now is in ns of the monotonic clock.
func (n *Continuation) Begin(t flv.Tag, now int64) bool {
	if t.Packet != flv.PacketFrame || !n.timed || n.begun {
		return false
	}
	n.begun, n.shift = true, n.streamTime(now)-t.Timestamp
	return true
}

// Last returns the timestamp of the last frame of an earlier publisher, in ms. It must be called
// before the second frame of this publisher is passed to Fit.
func (n *Continuation) Last() uint32 { return n.last }

// Fit adjusts the timestamp of a tag, both in t and in c, which holds the whole tag. Begin must be
// called with t first. now is in ns of the monotonic clock.
//
// If Fit returns false, the caller must drop the tag: it is in the preamble already, or it is video
// before the first keyframe. Keyframes of secondary tracks do not count; see
// [StartFinder.Secondary].
func (n *Continuation) Fit(
	t *flv.Tag, c *millrace.Chain, now int64, finder *StartFinder, preamble *Preamble,
	enc *flv.Encoder,
) bool {
	switch {
	case t.Type != flv.TypeVideo || t.Packet != flv.PacketFrame || !n.needsKey:
	case !t.Key || finder.Secondary(*t):
		return false
	default:
		n.needsKey = false
	}
	if part := preamble.Part(*t); part != nil && sameTag(part, c) {
		return false
	}
	if ts := n.newTimestamp(t, now); ts != t.Timestamp {
		var moved millrace.Chain
		enc.Retime(&moved, c, ts)
		c.Release()
		c.Merge(&moved)
		t.Timestamp = ts
	}
	return true
}

// streamTime converts a time of the monotonic clock, in ns, to a timestamp of the stream, in ms.
func (n *Continuation) streamTime(now int64) uint32 { return n.last + uint32((now-n.lastAt)/1e6) }

// newTimestamp returns the new timestamp of the tag t. Usually, this is the publisher's timestamp
// plus n.shift. The current time, now, is in ns of the monotonic clock.
func (n *Continuation) newTimestamp(t *flv.Tag, now int64) uint32 {
	ts, frame := t.Timestamp+n.shift, t.Packet == flv.PacketFrame
	ahead := int32(ts - n.last)
	switch {
	case !n.timed:
		return t.Timestamp
	case !n.begun:
		// Before the first frame, encoders send the timestamp 0, which says nothing about their
		// clock.
		return n.streamTime(now)
	case frame && n.past:
		n.last = ts // so that later headers are compared with a recent timestamp
	case frame && ahead > Interleave:
		n.past = true
	case frame && ahead < -Interleave: // the encoder's clock has stepped back
		n.shift = n.streamTime(now) - t.Timestamp
		return n.streamTime(now)
	case ahead < 0: // no tag gets a timestamp before n.last
		return n.last
	}
	return ts
}

// sameTag reports whether two whole tags are equal except for their timestamps.
func sameTag(a, b *millrace.Chain) bool {
	const from, to = 4, 8 // position of the timestamp in a tag's header
	if a.Len() != b.Len() {
		return false
	}
	x, y := a.Bytes(), b.Bytes()
	return bytes.Equal(x[:from], y[:from]) && bytes.Equal(x[to:], y[to:])
}
