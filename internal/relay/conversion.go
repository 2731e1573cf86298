package relay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"sync"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/broadcast"
	"github.com/millrace-io/millrace/frame/flv"
)

// unheardBytes is how much of a flood is made before viewers are served. An encoder's stream never gets there.
const unheardBytes = 64 << 10

// A conversion makes a rendition from a stream while it has viewers. It is one goroutine with a cursor in the stream's
// ring, which publishes to the ring of the rendition.
type conversion struct {
	out    *rendition
	live   *rendition
	cursor *broadcast.Cursor
	maker  maker

	setReady func() // closes rendition.ready

	tag     millrace.Chain
	skipped bool // frames are missing in front of the next one
	warned  bool // that was logged
	unheard int  // bytes since viewers were served
}

// A maker is what a conversion makes: one per format. It publishes by conversion.publish.
type maker interface {
	// write takes the next tag of the stream. It takes ownership of tag. afterLoss says that frames are missing in front of
	// this one. errNewInit ends the rendition as if the stream had ended there.
	write(t flv.Tag, tag *millrace.Chain, afterLoss bool) error
	// finish publishes what waits, at the end of the stream.
	finish() error
	// release gives back what is held.
	release()
}

// convert starts the making of a rendition. s.mu is held. A test makes the conversion alone, by newConversion.
func (s *stream) convert(f format) *rendition {
	c := s.newConversion(f)
	ctx, stop := context.WithCancel(context.Background())
	c.out.stop = stop
	go c.run(ctx)
	return c.out
}

// newConversion is convert without the goroutine. s.mu is held.
func (s *stream) newConversion(f format) *conversion {
	ready := make(chan struct{})
	c := &conversion{live: s.live, cursor: s.live.source(), setReady: sync.OnceFunc(func() { close(ready) })}
	c.out = s.newRendition(f, nil)
	c.out.ready = ready
	c.maker = kinds[f].newMaker(s, c)
	return c
}

// run converts until the stream ends or the last viewer has left.
func (c *conversion) run(ctx context.Context) {
	log, form, why := c.live.stream.log, c.out.format.String(), makingFailed
	defer func() { c.out.close(why) }()
	defer c.cursor.Close()
	defer c.live.stream.retire(c.out)
	defer c.setReady()
	defer func() {
		if cause := recover(); cause != nil {
			log.Error("making a rendition failed", "form", form, "cause", fmt.Sprint(cause), "stack", string(debug.Stack()))
		}
	}()
	log.Debug("rendition started", "form", form)
	err := c.readAll(ctx)
	if err == nil {
		err = c.maker.finish()
	}
	c.maker.release()
	c.tag.Release()
	level := slog.LevelDebug
	switch {
	case err == nil || ctx.Err() != nil: // or it has no viewers
		why = streamEnded
	case errors.Is(err, errNewInit):
		why, level = codecsChange, slog.LevelInfo
	default:
		level = slog.LevelWarn
	}
	log.Log(ctx, level, "rendition ended", "form", form, "reason", explain(err))
}

// readAll gives the maker all tags of the stream. It returns nil at the stream's end.
func (c *conversion) readAll(ctx context.Context) error {
	r := millrace.NewReaderFrom(c.source(ctx))
	defer r.Release()
	dec := flv.NewDecoder(r, flv.MaxTag(min(c.live.stream.hub.cfg.MaxTagBytes, flv.MaxData)))
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

// source returns what a Reader needs to read the stream from its header on.
func (c *conversion) source(ctx context.Context) func(dst *millrace.Chain) error {
	begun, due := false, 0 // frames that were there at the start, and have not been taken
	more := true
	return func(dst *millrace.Chain) error {
		if !begun {
			begun, due = true, c.cursor.Lag().Frames
			dst.AppendCopy(c.live.head)
			return nil
		}
		if due <= 0 { // what was taken before has been read
			c.setReady()
		}
		for ctx.Err() == nil {
			if !more {
				c.flush()
			}
			b, err := c.cursor.Next(ctx, dst)
			more = b.More
			due -= b.Frames + b.Missed.Frames
			if b.Missed.Why != broadcast.NotMissed {
				c.miss(b.Missed)
			}
			if err != nil || b.Bytes > 0 {
				return err
			}
		}
		return ctx.Err()
	}
}

// miss notes that frames were gone before they were read: the processor was busy, or the stream came faster than it
// can be converted. A batch begins where viewers may begin, and so the file goes on there.
func (c *conversion) miss(lost broadcast.Missed) {
	s := c.live.stream
	s.mu.Lock()
	viewers := c.out.viewers
	s.mu.Unlock()
	c.skipped = true
	if !c.warned {
		c.warned = true
		go s.log.Warn("the making of a rendition is behind what is kept, and skips to the newest key frame",
			"form", c.out.format.String(), "viewers", viewers, "frames", lost.Frames, "bytes", lost.Bytes, "reason", lost.Why.String())
	}
	lost.Frames *= viewers
	s.noteLost(lost)
}

// publish adds a frame to the ring. It takes ownership of frame.
func (c *conversion) publish(frame *millrace.Chain, f broadcast.Frame) error {
	c.unheard += frame.Len()
	if err := c.out.ring.Publish(frame, f); err != nil {
		return err
	}
	if c.unheard >= unheardBytes {
		c.flush()
	}
	return nil
}

// flush has the viewers served: no more will come for a while.
func (c *conversion) flush() {
	c.unheard = 0
	c.out.ring.Flush()
}
