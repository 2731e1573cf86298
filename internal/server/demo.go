package server

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"runtime/debug"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/frame/flv"
	"github.com/millrace-io/millrace/internal/server/demo"
)

// demoName is the stream that --demo publishes.
const demoName = "demo"

// playDemo publishes the built-in sample, over and over, until the server shuts down.
func (s *Server) playDemo() {
	st := s.newStream(demoName, demoName)
	if err := s.registry.claim(st); err != nil {
		s.log.Error("the demo cannot be played", "reason", err)
		return
	}
	defer s.registry.leave()
	defer st.end()
	defer func() {
		if cause := recover(); cause != nil {
			s.log.Error("the demo failed", "cause", fmt.Sprint(cause), "stack", string(debug.Stack()))
		}
	}()
	d, err := newDemo(st)
	if err != nil {
		s.log.Error("the demo cannot be played", "reason", err)
		return
	}
	defer d.release()
	st.logEnd(0, d.play(s.draining))
}

// A demoPlayer publishes the sample's tags when they are due.
type demoPlayer struct {
	in   *ingest
	tags []demoTag // in the order in which they are sent, from the first that is not configuration
}

type demoTag struct {
	flv.Tag
	bytes millrace.Chain
}

// newDemo opens st and publishes what stands before the first picture.
func newDemo(st *stream) (*demoPlayer, error) {
	d := &demoPlayer{in: &ingest{s: st, r: millrace.NewReader(bytes.NewReader(demo.Sample))}}
	dec := flv.NewDecoder(d.in.r)
	header, err := dec.Header()
	if err != nil {
		return nil, err
	}
	var head millrace.Chain
	flv.AppendHeader(&head, header)
	st.open(formFLV, bytes.Clone(head.Bytes()))
	head.Release()
	for {
		tag := demoTag{}
		if tag.Tag, err = dec.Next(&tag.bytes); err == io.EOF {
			return d, nil
		}
		if err == nil && d.in.part(tag.Tag) != nil {
			d.in.frame.Merge(&tag.bytes)
			err = d.in.tag(tag.Tag)
			if err == nil {
				continue
			}
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
	d.in.release()
}

// play publishes round after round. Each tag is due at a time counted from the start, so that errors do not add up, and its
// timestamp says so; everything behind the timestamp is the sample's own memory.
func (d *demoPlayer) play(ctx context.Context) error {
	begin := time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for round := 0; ; round++ {
		for i := range d.tags {
			tag := &d.tags[i]
			at := d.due(tag, round)
			timer.Reset(time.Until(begin.Add(at)))
			select {
			case <-timer.C:
			case <-ctx.Done():
				return errDraining
			}
			flv.Retime(&d.in.frame, &tag.bytes, uint32(at/time.Millisecond))
			d.in.meter.add(d.in.s, tag.Len())
			if err := d.in.tag(tag.Tag); err != nil {
				return err
			}
			d.in.s.announceSoon()
		}
	}
}

// due returns when a tag is to be sent, counted from the start.
func (d *demoPlayer) due(tag *demoTag, round int) time.Duration {
	return time.Duration(round)*demo.Length + time.Duration(tag.Timestamp)*time.Millisecond
}
