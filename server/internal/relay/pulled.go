package relay

import (
	"cmp"
	"hash/crc32"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/media/flv"
	"github.com/millrace-io/millrace/server/internal/relay/flvstream"
)

// A pull is how far a stream has got in what its owner sends. The connection may be cut anywhere. The next one begins
// with the owner's newest group of pictures, of which the stream may have a part: it goes on behind that. The goroutine
// of the stream's publisher has it.
type pull struct {
	epoch  uint64
	goesOn *flvstream.Continuation // from the publishers before; nil: there were none

	// What has come, in the owner's frames.
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

// follow notes what p, which begins, gets its tags from, and goes on with that if the stream has had a part of it.
func (f *feed) follow(p *Publisher) {
	f.address = p.address
	switch n := f.pull; {
	case !p.isPull():
		f.pull = nil
	case n == nil || n.epoch != p.epoch:
		f.pull = &pull{epoch: p.epoch, goesOn: p.goesOn}
	default:
		n.goesOn = cmp.Or(n.goesOn, &flvstream.Continuation{}) // which leaves headers out that are known
		p.goesOn = n.goesOn
		n.joins, n.again = true, 0
	}
}

// isNew reports whether t, which is in c, has not come before. It borrows c.
func (p *Publisher) isNew(t flv.Tag, c *millrace.Chain) bool {
	f, frame := &p.s.feed, t.Packet == flv.PacketFrame
	n := f.pull
	n.starts.Note(t)
	if n.joins && frame {
		n.joins = false
		switch ahead := int32(t.Timestamp - n.last); {
		case n.frames > 0 && identify(c) == n.start:
			n.again = n.frames
		case n.frames > 0 && ahead <= 0: // the owner has begun anew
			n.goesOn = f.goOn()
			p.goesOn = n.goesOn
		default: // what is between is lost
			last := f.last
			p.s.facts.Resumed.Store(&last)
		}
	}
	switch {
	case n.again > 0: // headers among them are known, or newer than those that the connection began with
		n.again--
		return !frame && flvstream.InPreamble(t)
	case n.joins:
		return true
	case n.starts.IsStart(t, p.s.live.startIsKept):
		n.start, n.frames = identify(c), 1
	case n.frames > 0:
		n.frames++
	}
	if frame {
		n.last = t.Timestamp
	}
	return true
}
