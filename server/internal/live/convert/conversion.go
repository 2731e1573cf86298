// Package convert converts a live FLV stream to other formats: fragmented MP4 and RTMP messages.
//
// A [Conversion] reads the tags from the stream's ring, and passes each tag to a maker, which
// publishes the result to another ring. Each output format has a maker and a constructor, such as
// [MP4].
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

// A Reporter receives reports about the frames that a conversion leaves out. The conversion's
// goroutine calls the methods.
type Reporter interface {
	// LeftOut reports that n more NAL units or video frames were left out of the MP4 because
	// decoders fail on them.
	LeftOut(n int64)
	// Unstarted reports that n frames between a change of the codecs and the next keyframe were left
	// out, because an MP4 file cannot begin with them.
	Unstarted(n int)
	// Refused reports that a tag of type t cannot be converted. why is the reason.
	Refused(t flv.Type, why error)
	// Missed reports frames that left the ring before the conversion could read them.
	Missed(m broadcast.Missed)
}

// A Source is the stream that a Conversion reads. The caller must hold the lock that guards the
// stream's tracks until the Conversion has been created.
type Source struct {
	Facts  *flvstream.Facts
	Head   []byte            // the FLV header
	Cursor *broadcast.Cursor // the position at which the conversion begins; owned by the Conversion
	MaxTag int               // maximum size of a tag's data, in bytes
	Memory *millrace.Pool    // allocates copies that are kept for a long time
	Begun  bool              // a frame has been published
}

// A maker converts the tags of a stream to one format, such as MP4.
type maker interface {
	// write converts the next tag of the stream. The parameter t describes the tag, and the Chain
	// tag holds its bytes. write takes ownership of the bytes. If afterLoss is true, frames before
	// this tag are missing. If write returns ErrNewInit, the output ends before this tag.
	write(t flv.Tag, tag *millrace.Chain, afterLoss bool) error
	// finish publishes the frames that the maker still holds back at the end of the stream.
	finish() error
	release()
}

// A Conversion converts a stream to another format. It runs in one goroutine, which reads frames
// from the stream's ring and publishes to another ring.
type Conversion struct {
	source Source
	report Reporter
	out    *broadcast.Ring
	maker  maker

	ready    chan struct{}
	setReady func() // closes ready

	tag       millrace.Chain
	skipped   bool // frames before the next frame are missing
	unflushed int  // bytes published since the last flush
}

func newConversion(source Source, report Reporter, out *broadcast.Ring) *Conversion {
	c := &Conversion{source: source, report: report, out: out, ready: make(chan struct{})}
	c.setReady = sync.OnceFunc(func() { close(c.ready) })
	return c
}

// Ready returns a channel that is closed when the conversion has processed all frames that were in
// the stream's ring when the conversion began. The channel is also closed when Run returns.
func (c *Conversion) Ready() <-chan struct{} { return c.ready }

// Run converts the stream. It returns nil at the end of the stream, and an error when ctx ends. If
// the stream changes in a way that the output format cannot represent, Run returns ErrNewInit.
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

// convert passes all tags of the stream to c.maker. It returns nil at the end of the stream.
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

// read returns a function that a millrace.Reader calls to get the bytes of the stream. The first
// call to the function appends the stream's header to dst. Each later call appends the next frames
// to dst.
func (c *Conversion) read(ctx context.Context) func(dst *millrace.Chain) error {
	begun, due := false, 0 // due: number of frames in the ring at the start that are still unread
	more := true
	return func(dst *millrace.Chain) error {
		if !begun {
			begun, due = true, c.source.Cursor.Lag().Frames
			dst.AppendCopy(c.source.Head)
			return nil
		}
		if due <= 0 { // all frames of the ring at the start are converted
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
				// After a loss, a batch begins where viewers can start, so the output can continue
				// there.
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

// flushBytes is the maximum number of published bytes that may wait for a flush. The limit matters
// only if the stream arrives without pauses. The stream of an encoder never reaches the limit.
const flushBytes = 64 << 10

// publish adds a frame to the output ring, and takes ownership of the frame.
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

func (c *Conversion) flush() {
	c.unflushed = 0
	c.out.Flush()
}

// startIsKept reports whether the output ring still has a keyframe at which viewers can start.
func (c *Conversion) startIsKept() bool { return c.out.Stats().Start }
