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
// The zero value changes no timestamps and drops no frames. It drops only headers and metadata that
// the stream already has.
type Continuation struct {
	timed bool // the stream has a clock, because it has had a frame
	// Timestamp in the stream of the last frame of earlier publishers. No tag gets an earlier
	// timestamp. While the field past is true, each further frame of this publisher replaces last
	// with its timestamp.
	last   uint32
	lastAt int64  // when that frame was published: monotonic, in ns
	begun  bool   // the first frame has come, so shift is known
	shift  uint32 // added to the publisher's timestamps
	// Set when a frame has a timestamp that is more than 5 seconds (Interleave) after last. Later
	// frames are not compared with the last frame of earlier publishers. They cannot be compared
	// for ever, because timestamps wrap around.
	past     bool
	needsKey bool // video is dropped up to the next keyframe
}

// Continue returns a Continuation that makes the next publisher's tags continue the stream.
//   - timed means that the stream has had a frame.
//   - last is the timestamp of the last frame, in ms.
//   - lastAt is when the last frame was published, in ns of a monotonic clock.
func Continue(timed bool, last uint32, lastAt int64) *Continuation {
	return &Continuation{timed: timed, last: last, lastAt: lastAt, needsKey: true}
}

// Begin reports whether the tag t is the publisher's first frame, and the stream already has frames
// of earlier publishers. A tag is a frame if its Packet is flv.PacketFrame. The caller must call
// Begin with each tag before it calls Fit with the tag. at is when the tag arrived, in ns of the
// monotonic clock.
func (n *Continuation) Begin(t flv.Tag, at int64) bool {
	if t.Packet != flv.PacketFrame || !n.timed || n.begun {
		return false
	}
	n.begun, n.shift = true, n.due(at)-t.Timestamp
	return true
}

// Last returns the timestamp in the stream, in ms, of the last frame of earlier publishers. It must
// be called before Fit is called with the second frame of the new publisher. From the second frame
// on, Fit may replace the timestamp with the timestamp of a newer frame.
func (n *Continuation) Last() uint32 { return n.last }

// Fit changes the timestamp of the tag t so that the tag continues the stream of earlier
// publishers. It returns false if the tag must be dropped: a header or metadata that the stream
// already has, or video before the first keyframe. The caller must call Begin with the tag before
// it calls Fit.
//   - c holds the whole tag.
//   - at is when the tag arrived, in ns of the monotonic clock.
//   - starts knows at which keyframes viewers can start.
//   - preamble has the headers of the stream.
//   - enc writes a new tag header if the timestamp changes.
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

// due returns the timestamp in the stream of a frame that arrives now. at is the current monotonic
// time, in ns.
func (n *Continuation) due(at int64) uint32 { return n.last + uint32((at-n.lastAt)/1e6) }

// time returns the timestamp that the tag t gets in the stream. at is when t arrived, in ns of the
// monotonic clock.
//
// Usually, the result is the publisher's timestamp plus n.shift, the difference between the
// stream's clock and the publisher's clock. There are exceptions:
//   - If the stream had no frames before this publisher, the timestamp does not change.
//   - If t comes before the publisher's first frame, it gets the present time of the stream.
//     Encoders give such a tag the timestamp 0, which says nothing about the encoder's clock.
//   - If the result would be before n.last, the timestamp of the last frame of earlier publishers,
//     t gets n.last instead.
//   - If the result for a frame would be more than 5 seconds (Interleave) before n.last, the
//     encoder's clock has stepped back. The frame gets the present time of the stream, and later
//     timestamps continue from there.
//
// The last two rules do not apply to frames once n.past is set.
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
