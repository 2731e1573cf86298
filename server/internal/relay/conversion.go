package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"

	"github.com/millrace-io/millrace/broadcast"
	"github.com/millrace-io/millrace/media/flv"
	"github.com/millrace-io/millrace/server/internal/relay/convert"
	"github.com/millrace-io/millrace/server/internal/relay/fanout"
	"github.com/millrace-io/millrace/server/internal/relay/flvstream"
)

// convert starts the making of a rendition. s.mu is held.
func (s *stream) convert(f format) *rendition {
	r, c := s.newConversion(f)
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	go r.run(ctx, c)
	return r
}

// newConversion is convert without the goroutine. s.mu is held.
func (s *stream) newConversion(f format) (*rendition, *convert.Conversion) {
	r := s.newRendition(f, nil)
	source := convert.Source{Facts: s.facts, Head: s.live.head, Cursor: s.live.source(), MaxTag: s.hub.cfg.maxTag(),
		Memory: s.memory, Begun: s.begun}
	report := &conversionReport{rendition: r}
	var c *convert.Conversion
	switch f {
	case formatMP4:
		c = convert.MP4(source, report, r.ring, s.hub.cfg.KeepBytes)
	case formatRTMP:
		c = convert.RTMP(source, report, r.ring)
	default:
		panic("relay: no conversion to " + f.String())
	}
	r.ready = c.Ready()
	return r, c
}

// run makes r until the stream ends or the last viewer has left.
func (r *rendition) run(ctx context.Context, c *convert.Conversion) {
	log, form, why := r.stream.log, r.format.String(), fanout.ConversionFailed
	defer func() { r.fanout.Close(why) }()
	defer r.stream.retire(r)
	defer func() {
		if cause := recover(); cause != nil {
			log.Error("making a rendition failed", "form", form, "cause", fmt.Sprint(cause), "stack", string(debug.Stack()))
		}
	}()
	log.Debug("rendition started", "form", form)
	err := c.Run(ctx)
	level := slog.LevelDebug
	switch {
	case err == nil || ctx.Err() != nil: // or it has no viewers
		why = fanout.StreamEnded
	case errors.Is(err, convert.ErrNewInit):
		why, level = fanout.CodecsChanged, slog.LevelInfo
	default:
		level = slog.LevelWarn
	}
	log.Log(ctx, level, "rendition ended", "form", form, "reason", explain(err))
}

// A conversionReport logs and counts what the making of a rendition leaves out.
type conversionReport struct {
	rendition *rendition
	warned    bool // frames that were missed were logged
}

// LeftOut warns once of each publisher that sends such video.
func (c *conversionReport) LeftOut(n int64) {
	s := c.rendition.stream
	s.hub.counters.leftOut.Add(n)
	if p := s.currentPublisher(); !p.oddVideo.Swap(true) {
		s.log.Warn("the publisher sends video that decoders fail at: MP4, HLS and recordings are made without it",
			"publisher", p.address, "wrong", "NAL units of length 0, start codes (Annex B) in place of "+
				"lengths, lengths beyond the end, or frames without a picture")
	}
}

// Refused warns once of each publisher that sends such tags.
func (c *conversionReport) Refused(t flv.Type, why error) {
	s, flag := c.rendition.stream, flvstream.TrackFlag(t)
	if p := s.currentPublisher(); p.refused.Or(flag)&flag == 0 {
		s.log.Warn("MP4, HLS and recordings are made without something that the publisher sends",
			"publisher", p.address, "reason", why)
	}
}

// Missed counts the frames for each viewer of the rendition.
func (c *conversionReport) Missed(lost broadcast.Missed) {
	s := c.rendition.stream
	s.mu.Lock()
	viewers := c.rendition.viewers
	s.mu.Unlock()
	if !c.warned {
		c.warned = true
		go s.log.Warn("the making of a rendition is behind what is kept, and skips to the newest key frame",
			"form", c.rendition.format.String(), "viewers", viewers, "frames", lost.Frames, "bytes", lost.Bytes, "reason", lost.Why.String())
	}
	lost.Frames *= viewers
	s.noteLost(lost)
}
