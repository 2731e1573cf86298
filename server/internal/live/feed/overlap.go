package feed

import (
	"hash/crc32"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/media/flv"
	"github.com/millrace-io/millrace/server/internal/live/flvstream"
)

// An overlap finds the frames that come a second time when a stream is pulled from its owner again.
// The connection may be cut anywhere, and the next one begins with the owner's newest GOP, of which
// the stream may have a part.
type overlap struct {
	epoch     uint64
	continues *flvstream.Continuation // from the publishers before; nil: there were none

	// The frames so far, from the owner.
	starts flvstream.StartFinder
	start  frameID // the newest one that viewers can start at
	frames int     // from start on; 0: there is no start
	last   uint32  // the owner's time of the latest one

	joins bool // the first frame of a connection is to come
	again int  // frames that come a second time
}

// A frameID tells a frame from others of its stream.
type frameID struct {
	size int
	sum  uint32
}

// identify borrows c.
func identify(c *millrace.Chain) frameID {
	id := frameID{size: c.Len()}
	for piece := range c.All() {
		id.sum = crc32.Update(id.sum, crc32.IEEETable, piece)
	}
	return id
}

// A verdict is an overlap's decision about a tag.
type verdict int

const (
	fresh     verdict = iota
	repeated          // the stream has had the tag, or a newer header
	restarted         // fresh, and the first frame after the owner's clock has begun anew
	afterGap          // fresh, and frames before it are lost
)

// take returns whether t, a pulled tag in c, has come before. It borrows c. startIsKept reports
// whether viewers can start at a frame that is kept.
func (o *overlap) take(t flv.Tag, c *millrace.Chain, startIsKept func() bool) (v verdict) {
	frame := t.Packet == flv.PacketFrame
	o.starts.Note(t)
	if o.joins && frame {
		o.joins = false
		switch ahead := int32(t.Timestamp - o.last); {
		case o.frames > 0 && identify(c) == o.start:
			o.again = o.frames
		case o.frames > 0 && ahead <= 0:
			v = restarted
		default:
			v = afterGap
		}
	}
	switch {
	case o.again > 0: // the headers among them are known, or newer than the connection's first ones
		o.again--
		if frame || !flvstream.InPreamble(t) {
			return repeated
		}
		return fresh
	case o.joins:
		return fresh
	case o.starts.IsStart(t, startIsKept):
		o.start, o.frames = identify(c), 1
	case o.frames > 0:
		o.frames++
	}
	if frame {
		o.last = t.Timestamp
	}
	return v
}
