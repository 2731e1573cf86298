package flvstream

import (
	"bytes"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/media/flv"
)

// A Continuation adjusts the tags of a publisher so that they continue the tags of earlier
// publishers. The timestamps of the stream advance by the time that has passed since the last
// frame. Video is dropped up to the first keyframe, because the viewers do not have the frames to
// which it refers.
//
// The zero value adjusts nothing. It only drops headers that are known already.
type Continuation struct {
	timed bool // the stream has a clock, because it has had a frame
	// Time of the last frame of earlier publishers; no tag gets an earlier time. After past, it is
	// the time of the publisher's newest frame.
	last   uint32
	lastAt int64  // when that frame was published: monotonic, in ns
	begun  bool   // the first frame has come, so shift is known
	shift  uint32 // added to the publisher's timestamps
	// A frame has come that is more than Interleave after last. From then on, frames are no longer
	// compared with last, because timestamps wrap around.
	past     bool
	needsKey bool // video is dropped up to the next keyframe
}

// Continue returns a Continuation for the next publisher of a stream. timed means that the stream
// has had a frame. last is the timestamp of the last frame. lastAt is when that frame was
// published, in ns of a monotonic clock.
func Continue(timed bool, last uint32, lastAt int64) *Continuation {
	return &Continuation{timed: timed, last: last, lastAt: lastAt, needsKey: true}
}

// Begin must be called with each tag, before Fit. at is when the tag arrived, in ns of the
// monotonic clock. Begin reports whether t is the publisher's first frame, and the stream had
// frames of earlier publishers.
func (n *Continuation) Begin(t flv.Tag, at int64) bool {
	if t.Packet != flv.PacketFrame || !n.timed || n.begun {
		return false
	}
	n.begun, n.shift = true, n.due(at)-t.Timestamp
	return true
}

// Last returns the stream's time at the last frame of earlier publishers.
func (n *Continuation) Last() uint32 { return n.last }

// Fit adjusts t, which is the next tag of the stream, and c, which holds the whole tag. It returns
// false if t must be dropped. starts and preamble belong to the stream. enc writes a new header if
// the time of the tag changes. The caller must have passed t to Begin.
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

// due returns the timestamp of a frame that arrives at the monotonic time at, in ns.
func (n *Continuation) due(at int64) uint32 { return n.last + uint32((at-n.lastAt)/1e6) }

// time returns the time of t in the stream. Encoders give the time 0 to tags before the first
// frame, so these times say nothing about the encoder's clock. If an early frame is more than
// Interleave before last, the encoder's clock has stepped back. The stream's time then continues
// from the present.
func (n *Continuation) time(t *flv.Tag, at int64) uint32 {
	ts, frame := t.Timestamp+n.shift, t.Packet == flv.PacketFrame
	ahead := int32(ts - n.last)
	switch {
	case !n.timed:
		return t.Timestamp
	case !n.begun:
		return n.due(at)
	case frame && n.past:
		n.last = ts // so that later headers are compared with a time near theirs
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

// sameTag reports whether two whole tags are equal except for their timestamps.
func sameTag(a, b *millrace.Chain) bool {
	const from, to = 4, 8 // position of the timestamp in a tag's header
	if a.Len() != b.Len() {
		return false
	}
	x, y := a.Bytes(), b.Bytes()
	return bytes.Equal(x[:from], y[:from]) && bytes.Equal(x[to:], y[to:])
}
