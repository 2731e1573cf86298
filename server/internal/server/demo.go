package server

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/media/flv"
	"github.com/millrace-io/millrace/server/internal/demo"
	"github.com/millrace-io/millrace/server/internal/live"
	"github.com/millrace-io/millrace/server/internal/live/cluster"
	"github.com/millrace-io/millrace/server/internal/outage"
	"github.com/millrace-io/millrace/server/internal/refuse"
)

// demoPause is the interval at which a node checks whether any node publishes the demo stream.
const demoPause = time.Second

// A demoService publishes the sample, a video that is built into the binary, as a stream.
type demoService struct {
	hub  *live.Hub
	node *clusterNode // nil without a cluster
	log  *slog.Logger
}

// run publishes the sample in a loop until the stream ends, for example because another publisher
// takes over the stream.
//
// In a cluster, run continues until ctx ends. Every demoPause, run checks whether a node has the
// stream, and publishes only if no node has the stream. It therefore never takes the stream from
// another publisher.
func (s *demoService) run(ctx context.Context) {
	if s.node == nil {
		if err := s.publish(); err != nil {
			s.log.Error("the demo cannot be played", "reason", err)
		}
		return
	}
	again := time.NewTicker(demoPause)
	defer again.Stop()
	var failures outage.Outage
	for ctx.Err() == nil {
		_, err := s.node.Owner(ctx, demo.Name)
		if errors.Is(err, cluster.ErrNoOwner) {
			err = s.publish()
		}
		if refuse.Status(err) == http.StatusConflict {
			err = nil // another publisher has the stream
		}
		if failures.Note(err) && err != nil && ctx.Err() == nil {
			s.log.Warn("the demo is not played", "reason", err)
		}
		select {
		case <-again.C:
		case <-ctx.Done():
		}
	}
}

// publish publishes the sample until the stream ends. It fails if the stream cannot be opened.
func (s *demoService) publish() error {
	p, err := s.hub.Open(demo.Name, demo.Name, live.Terms{})
	if err != nil {
		return err
	}
	defer p.Answered()
	_ = p.Run(func() error {
		d, err := newDemo(p)
		if err != nil {
			return err
		}
		defer d.release()
		return d.play(p.Lifetime())
	})
	return nil
}

// A demoPlayer publishes the tags of the sample when they are due.
type demoPlayer struct {
	p    *live.Publisher
	tags []demoTag // in the order of sending
}

type demoTag struct {
	flv.Tag
	bytes millrace.Chain
}

// newDemo reads the header and the tags of the built-in sample video. It begins the stream of the
// publisher p with this header.
func newDemo(p *live.Publisher) (*demoPlayer, error) {
	r := millrace.NewReader(bytes.NewReader(demo.Sample))
	defer r.Release()
	dec := flv.NewDecoder(r)
	header, err := dec.Header()
	if err != nil {
		return nil, err
	}
	d := &demoPlayer{p: p}
	for {
		var tag demoTag
		if tag.Tag, err = dec.Next(&tag.bytes); err == io.EOF {
			p.Begin(header)
			return d, nil
		}
		if err != nil {
			d.release()
			return nil, err
		}
		d.tags = append(d.tags, tag)
	}
}

func (d *demoPlayer) release() {
	for i := range d.tags {
		d.tags[i].bytes.Release()
	}
}

// isConfig reports whether viewers need the tag before they can start.
func (t *demoTag) isConfig() bool { return t.Metadata || t.SequenceHeader }

// play publishes the sample again and again until ctx ends.
//
// Each tag is sent at a fixed time after the start of play, so that delays do not add up. This time
// is also the timestamp of the tag. The published frames share the memory of the sample, except for
// the timestamps.
func (d *demoPlayer) play(ctx context.Context) error {
	begin := time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	var enc flv.Encoder
	defer enc.Release()
	var frame millrace.Chain
	for round := 0; ; round++ {
		for i := range d.tags {
			tag := &d.tags[i]
			if round > 0 && tag.isConfig() {
				continue
			}
			at := d.due(tag, round)
			timer.Reset(time.Until(begin.Add(at)))
			select {
			case <-timer.C:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			enc.Retime(&frame, &tag.bytes, uint32(at/time.Millisecond))
			if err := d.p.WriteTag(tag.Tag, &frame); err != nil {
				return err
			}
		}
	}
}

// due returns the time at which the tag is sent, measured from the start of play. The argument
// round is the number of complete repetitions of the sample before this tag.
func (d *demoPlayer) due(tag *demoTag, round int) time.Duration {
	return time.Duration(round)*demo.Length + time.Duration(tag.Timestamp)*time.Millisecond
}
