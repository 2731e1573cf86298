// Package convert makes other forms of a live stream of FLV: fragmented MP4, and RTMP messages.
//
// A [Conversion] reads the stream's ring and gives each tag to a maker, which publishes to the ring
// of the new form. A further form needs a maker (mp4.go and rtmp.go have the two that exist) and a
// constructor such as [MP4].
package convert

import (
	"context"
	"io"
	"sync"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/broadcast"
	"github.com/millrace-io/millrace/media/flv"
	"github.com/millrace-io/millrace/server/internal/live/flvstream"
)

// A Reporter learns which frames a conversion leaves out. The conversion's goroutine calls its
// methods.
type Reporter interface {
	// LeftOut counts NAL units and video frames that MP4 leaves out because decoders fail at them.
	LeftOut(n int64)
	// Refused notes tags of a type that cannot be in the new form.
	Refused(t flv.Type, why error)
	// Missed notes frames that were gone before they were read: the processor was busy, or the
	// stream came faster than it can be converted.
	Missed(m broadcast.Missed)
}

// A Source is the stream that is converted. Between the making of the Source and that of the
// Conversion no other tracks may be published: the caller holds the lock under which that is done.
type Source struct {
	Facts  *flvstream.Facts
	Head   []byte            // the FLV header
	Cursor *broadcast.Cursor // where the conversion begins; it owns the cursor
	MaxTag int               // the longest data of a tag, in bytes
	Memory *millrace.Pool    // for copies that are kept for long
	Begun  bool              // a frame has been published
}

// A maker makes one form of a stream.
type maker interface {
	// write takes the next tag of the stream. It takes ownership of tag. afterLoss means that
	// frames before this one are missing. ErrNewInit ends the form as if the stream had ended
	// there.
	write(t flv.Tag, tag *millrace.Chain, afterLoss bool) error
	// finish publishes what waits, at the end of the stream.
	finish() error
	// release releases the memory that the maker holds.
	release()
}

// A Conversion makes one form of a stream: one goroutine with a cursor in the ring of the stream,
// which publishes to another ring.
type Conversion struct {
	source Source
	report Reporter
	out    *broadcast.Ring
	maker  maker

	ready    chan struct{}
	setReady func() // closes ready

	tag       millrace.Chain
	skipped   bool // frames before the next one are missing
	unflushed int  // bytes since the viewers were served
}

func newConversion(source Source, report Reporter, out *broadcast.Ring) *Conversion {
	c := &Conversion{source: source, report: report, out: out, ready: make(chan struct{})}
	c.setReady = sync.OnceFunc(func() { close(c.ready) })
	return c
}

// Ready is closed when everything has been converted that was in the stream's ring at the start, or
// Run has returned.
func (c *Conversion) Ready() <-chan struct{} { return c.ready }

// Run converts until the stream ends, and returns nil then, or until ctx ends. It returns
// ErrNewInit if the form cannot follow a change of the stream.
func (c *Conversion) Run(ctx context.Context) error {
	defer c.source.Cursor.Close()
	defer c.setReady()
	err := c.convert(ctx)
	if err == nil {
		err = c.maker.finish()
	}
	c.maker.release()
	c.tag.Release()
	return err
}

// convert gives the maker all tags of the stream. It returns nil at the stream's end.
func (c *Conversion) convert(ctx context.Context) error {
	r := millrace.NewReaderFrom(c.read(ctx))
	defer r.Release()
	dec := flv.NewDecoder(r, flv.MaxTag(c.source.MaxTag))
	for {
		t, err := dec.Next(&c.tag)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		afterLoss := c.skipped && t.Packet == flv.PacketFrame
		if afterLoss {
			c.skipped = false
		}
		if err := c.maker.write(t, &c.tag, afterLoss); err != nil {
			return err
		}
	}
}

// read returns the function from which a Reader reads the stream, from its header on.
func (c *Conversion) read(ctx context.Context) func(dst *millrace.Chain) error {
	begun, due := false, 0 // frames that were there at the start, and have not been taken
	more := true
	return func(dst *millrace.Chain) error {
		if !begun {
			begun, due = true, c.source.Cursor.Lag().Frames
			dst.AppendCopy(c.source.Head)
			return nil
		}
		if due <= 0 { // the previous frames have been read
			c.setReady()
		}
		for ctx.Err() == nil {
			if !more {
				c.flush()
			}
			b, err := c.source.Cursor.Next(ctx, dst)
			more = b.More
			due -= b.Frames + b.Missed.Frames
			if b.Missed.Why != broadcast.NotMissed {
				// A batch begins where viewers may begin, and the new form continues there.
				c.skipped = true
				c.report.Missed(b.Missed)
			}
			if err != nil || b.Bytes > 0 {
				return err
			}
		}
		return ctx.Err()
	}
}

// flushBytes is how much of a flood is made before viewers are served. An encoder's stream never
// gets there.
const flushBytes = 64 << 10

// publish adds a frame to the ring. It takes ownership of frame.
func (c *Conversion) publish(frame *millrace.Chain, f broadcast.Frame) error {
	c.unflushed += frame.Len()
	if err := c.out.Publish(frame, f); err != nil {
		return err
	}
	if c.unflushed >= flushBytes {
		c.flush()
	}
	return nil
}

// flush serves the viewers, because no more will come for a while.
func (c *Conversion) flush() {
	c.unflushed = 0
	c.out.Flush()
}

// startIsKept reports whether viewers can start at a keyframe that is kept.
func (c *Conversion) startIsKept() bool { return c.out.Stats().Start }
