package relay

import (
	"bytes"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/frame/flv"
)

// A continuation fits the tags of a publisher to those of the publishers before it: the stream's clock goes on by the
// time that has passed, and viewers get no picture that refers to one that did not come.
type continuation struct {
	timed    bool   // the stream has a clock: there was a frame
	last     uint32 // the stream's time at the last frame before; nothing is put before it
	lastAt   int64  // when that was published; see now
	begun    bool   // a frame has come, so shift is known
	shift    uint32 // what is added to the publisher's times
	past     bool   // a frame came so long after last that none is put before it; last is not looked at, which wraps
	needsKey bool   // pictures are dropped up to the next key frame
}

// fit changes t and c, a whole tag that came at a time of now, to what the stream goes on with. It returns false if t is
// to be left out.
func (n *continuation) fit(f *feed, t *flv.Tag, c *millrace.Chain, at int64) bool {
	if t.Packet == flv.PacketFrame && n.timed && !n.begun {
		n.begun, n.shift = true, n.due(at)-t.Timestamp
		f.s.resumed.Store(&n.last)
	}
	switch {
	case t.Type != flv.TypeVideo || t.Packet != flv.PacketFrame || !n.needsKey:
	case !t.Key || f.starts.first.beside(*t):
		return false
	default:
		n.needsKey = false
	}
	if part := f.preamble.part(*t); part != nil && sameTag(part, c) {
		return false
	}
	if ts := n.time(t, at); ts != t.Timestamp {
		var moved millrace.Chain
		f.enc.Retime(&moved, c, ts)
		c.Release()
		c.Merge(&moved)
		t.Timestamp = ts
	}
	return true
}

// due is the stream's time at a time of now.
func (n *continuation) due(at int64) uint32 { return n.last + uint32((at-n.lastAt)/1e6) }

// time returns the time of t in the stream. Encoders give the time 0 to what comes before the first frame, so that does
// not say how their clock goes. A clock that leaps back before it has gone on for a while begins anew.
func (n *continuation) time(t *flv.Tag, at int64) uint32 {
	ts, frame := t.Timestamp+n.shift, t.Packet == flv.PacketFrame
	ahead := int32(ts - n.last)
	switch {
	case !n.timed:
		return t.Timestamp
	case !n.begun:
		return n.due(at)
	case frame && n.past:
	case frame && ahead > interleave:
		n.past = true
	case frame && ahead < -interleave:
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
