package feed

import (
	"hash/crc32"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/media/flv"
	"github.com/millrace-io/millrace/server/internal/live/flvstream"
)

// An overlap finds repeated frames in a stream that this node receives from its owner, another
// node. If the connection to the owner is cut, the next connection begins with the owner's newest
// GOP. This node may already have a part of that GOP.
type overlap struct {
	epoch     uint64
	continues *flvstream.Continuation // see Feed.continues; nil if there was no earlier publisher

	// These fields describe the frames received from the owner so far.
	starts flvstream.StartFinder
	start  frameID // the newest frame at which viewers can start
	frames int     // number of tags from start on; 0 if there is no start
	last   uint32  // the owner's timestamp of the latest frame

	joins bool // the first frame of the connection is yet to come
	again int  // number of repeated tags that are yet to come
}

// A frameID distinguishes a frame from other frames of its stream.
type frameID struct {
	size int
	sum  uint32
}

func identify(c *millrace.Chain) frameID {
	id := frameID{size: c.Len()}
	for piece := range c.All() {
		id.sum = crc32.Update(id.sum, crc32.IEEETable, piece)
	}
	return id
}

// A verdict says whether a tag from the owner is new to this node.
type verdict int

const (
	fresh     verdict = iota
	repeated          // the stream already has the tag, or a newer header
	restarted         // fresh, and the first frame after the owner's timestamps restarted
	afterGap          // fresh, and frames before it were lost
)

// classify compares the tag t from the owner with the tags that this node already has. It borrows
// c, which holds all bytes of the tag. The function startIsKept must report whether the stream
// still has a keyframe at which viewers can start.
func (o *overlap) classify(t flv.Tag, c *millrace.Chain, startIsKept func() bool) (v verdict) {
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
	case o.again > 0: // headers are passed on; the Continuation drops repeated headers
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
