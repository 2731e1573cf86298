package rendition

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/broadcast"
	"github.com/millrace-io/millrace/media/flv"
	"github.com/millrace-io/millrace/server/internal/live/convert"
	"github.com/millrace-io/millrace/server/internal/live/fanout"
	"github.com/millrace-io/millrace/server/internal/live/flvstream"
)

// A conversion converts the live rendition of a Set to another format.
type conversion struct {
	*convert.Conversion
	set *Set
	to  *Rendition // another one after each change of the codecs; see nextRendition
}

// newConversion returns a conversion from s.live, which is FLV, to dst. The caller must hold s.mu.
func newConversion(s *Set, dst *Rendition) *conversion {
	source := s.source()
	c := &conversion{set: s, to: dst}
	switch report := (&report{conversion: c}); dst.format {
	case MP4:
		c.Conversion = convert.MP4(source, report, dst.ring, dst.cfg.KeepBytes, c.nextRendition)
	case RTMP:
		c.Conversion = convert.RTMP(source, report, dst.ring)
	default:
		panic("rendition: no conversion to " + dst.format.String())
	}
	dst.ready = c.Ready()
	return c
}

// source returns s.live as the source of a conversion. The caller must hold s.mu.
func (s *Set) source(opts ...broadcast.CursorOption) convert.Source {
	return convert.Source{Facts: s.facts, Head: s.live.head, Cursor: s.live.sourceCursor(opts...),
		MaxTag: s.cfg.MaxTag, Memory: s.memory, Begun: s.begun}
}

// Poster appends the newest keyframe to dst as an MP4 file with one frame, without copying. If
// there is none, it returns [convert.ErrNoPicture]. The caller keeps ownership of dst.
func (s *Set) Poster(dst *millrace.Chain) error {
	s.mu.Lock()
	source := s.source(broadcast.BatchFrames(1))
	s.mu.Unlock()
	return convert.Poster(source, dst)
}

// run converts until the stream ends, ctx ends or the conversion fails. It returns the reason to
// disconnect the viewers.
func (c *conversion) run(ctx context.Context) (why fanout.Reason) {
	log, form := c.set.log, c.to.format.String()
	defer func() {
		if cause := recover(); cause != nil {
			why = fanout.ConversionFailed
			log.Error("making a rendition failed", "form", form, "cause", fmt.Sprint(cause),
				"stack", string(debug.Stack()))
		}
	}()
	log.Debug("rendition started", "form", form)
	err := c.Run(ctx)
	why = fanout.ConversionFailed
	level, reason := slog.LevelDebug, "end of the stream"
	switch {
	case err == nil || ctx.Err() != nil: // after the end of ctx, the rendition has no viewers
		why = fanout.StreamEnded
	case errors.Is(err, convert.ErrNewInit):
		why, level = fanout.CodecsChanged, slog.LevelInfo
	default:
		level = slog.LevelWarn
	}
	if err != nil {
		reason = err.Error()
	}
	log.Log(ctx, level, "rendition ended", "form", form, "reason", reason)
	return why
}

// nextRendition ends c.to, because the codecs have changed. The viewers of c.to get the remaining
// frames. Its FragmentReaders continue in another rendition of the same format, which becomes c.to.
// nextRendition returns the ring of the new rendition, or nil if no FragmentReader can follow. It
// takes ownership of init, the preamble of the new rendition.
func (c *conversion) nextRendition(init *millrace.Chain) *broadcast.Ring {
	ended := c.to
	if !c.set.replace(c, init) {
		init.Release()
		return nil
	}
	ended.fanout.Close(fanout.CodecsChanged)
	c.set.log.Info("the codecs have changed: HLS and recordings continue with another header",
		"form", ended.format.String())
	return c.to.ring
}

// replace replaces c.to, if a FragmentReader can follow. It reports whether it has done so.
func (s *Set) replace(c *conversion, init *millrace.Chain) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	ended := c.to
	followed := false
	for reader := range ended.readers {
		followed = reader.canFollow() || followed
	}
	if !followed {
		return false
	}
	r := newRendition(s.base, ended.format, nil)
	r.ready, r.stop = ended.ready, ended.stop
	ended.stop = func() {}
	r.ring.SetPreamble(init)
	for reader := range ended.readers {
		reader.follow(r)
	}
	c.to, s.made[r.format] = r, r
	s.ended[ended] = struct{}{}
	return true
}

// A report logs and counts the frames that a conversion leaves out.
type report struct {
	conversion *conversion
	warned     bool // a warning about missed frames was logged
}

// LeftOut counts n damaged frames that were left out. It logs a warning once for each publisher.
func (c *report) LeftOut(n int64) {
	s := c.conversion.set
	s.cfg.Counters.Damaged.Add(n)
	if p := s.publisher.Load(); !p.oddVideo.Swap(true) {
		s.log.Warn("the publisher sends video that decoders fail at: MP4, HLS and recordings are made without it",
			"publisher", p.address, "wrong", "NAL units of length 0, start codes (Annex B) in place of "+
				"lengths, lengths beyond the end, or frames without video data")
	}
}

// Unstarted counts the frames between a change of the codecs and the next keyframe.
func (c *report) Unstarted(n int) {
	c.conversion.set.cfg.Counters.Unstarted.Add(int64(n))
}

// Refused logs a refused tag, but only once for each publisher and type of tag.
func (c *report) Refused(t flv.Type, why error) {
	s, flag := c.conversion.set, flvstream.TrackFlag(t)
	if p := s.publisher.Load(); p.refused.Or(flag)&flag == 0 {
		s.log.Warn("MP4, HLS and recordings are made without something that the publisher sends",
			"publisher", p.address, "reason", why)
	}
}

// Missed counts frames that were lost because the conversion to another format was too slow. Each
// frame is counted once for each viewer of this format, because each viewer loses the frame.
func (c *report) Missed(lost broadcast.Missed) {
	s := c.conversion.to
	s.mu.Lock()
	viewers := s.viewers
	s.mu.Unlock()
	if !c.warned {
		c.warned = true
		go s.log.Warn("a conversion is too slow, and skips to the newest keyframe",
			"form", s.format.String(), "viewers", viewers, "frames", lost.Frames, "bytes",
			lost.Bytes, "reason", lost.Why.String())
	}
	lost.Frames *= viewers
	s.NoteLost(lost)
}
