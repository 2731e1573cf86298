package server

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/broadcast"
	"github.com/millrace-io/millrace/frame/flv"
	"github.com/millrace-io/millrace/frame/mp4"
)

// A muxing makes fragmented MP4 of a stream, for as long as somebody watches that. It is one goroutine with a cursor in the
// stream's ring and a ring of its own.
type muxing struct {
	out     *outlet
	viewers int // guarded by stream.mu; the last one to leave ends it
	stop    context.CancelFunc

	// The goroutine's own.
	cursor  *broadcast.Cursor
	muxer   *mp4.Muxer
	tag     millrace.Chain
	part    millrace.Chain // a fragment
	init    bool           // viewers have been given an init segment
	refused error          // the first tag that had no place in the file
}

// errNewInit ends an MP4 file in the middle of a stream: it has one header, and the stream's codecs have changed.
var errNewInit = errors.New("the stream's codecs changed, and an MP4 file cannot follow: viewers must come again")

// errMuxingBehind ends an MP4 file when its maker did not get enough of the processor.
var errMuxingBehind = errors.New("the making of MP4 is too far behind the stream: viewers must come again")

// newMuxing returns a muxing of what c gives, and a function that starts its goroutine. It takes ownership of c. s.mu
// is held.
func (s *stream) newMuxing(c *broadcast.Cursor) (m *muxing, start func()) {
	ctx, stop := context.WithCancel(context.Background())
	m = &muxing{stop: stop, cursor: c}
	m.out = newOutlet(s, formMP4, nil, s.newRing())
	m.out.mux = m
	m.muxer = mp4.NewMuxer(mp4.Tracks(s.promises()))
	return m, func() { go m.run(ctx) }
}

// promises says what the stream has, or is going to have if it has only begun. s.mu is held.
func (s *stream) promises() (video, audio bool) {
	if s.begun {
		return s.video.Load() != nil, s.audio.Load() != nil
	}
	flags := s.live.head[4] // of the FLV header
	return flags&1 != 0, flags&4 != 0
}

// run makes fragments until the stream ends or the last viewer has left.
func (m *muxing) run(ctx context.Context) {
	s := m.out.stream
	defer m.stop()
	defer m.out.close()
	defer m.cursor.Close()
	defer m.retire()
	defer func() {
		if cause := recover(); cause != nil {
			s.log.Error("making MP4 failed", "cause", fmt.Sprint(cause), "stack", string(debug.Stack()))
		}
	}()
	s.log.Debug("MP4 started")
	err := m.convert(ctx)
	if err == nil && m.muxer.Flush(&m.part).Samples > 0 {
		err = m.out.ring.Publish(&m.part, broadcast.Frame{})
	}
	m.muxer.Release()
	m.tag.Release()
	m.part.Release()
	s.log.Debug("MP4 ended", "reason", explain(err))
}

// retire lets the next viewer who wants MP4 start anew.
func (m *muxing) retire() {
	s := m.out.stream
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mp4 == m {
		s.mp4 = nil
	}
}

// convert reads tags from the stream's ring and publishes fragments. It returns nil at the stream's end.
func (m *muxing) convert(ctx context.Context) error {
	news := m.out.stream.live.follow()
	defer m.out.stream.live.unfollow(news)
	r := millrace.NewReaderFrom(m.source(ctx, news))
	defer r.Release()
	dec := flv.NewDecoder(r, flv.MaxTag(min(m.out.stream.server.cfg.MaxTagBytes, flv.MaxData)))
	for {
		t, err := dec.Next(&m.tag)
		if err != nil {
			return ended(err)
		}
		f, err := m.muxer.WriteTag(&m.part, t, &m.tag)
		if err != nil && m.refused == nil {
			m.refused = err
			m.out.stream.log.Warn("MP4 leaves something out", "reason", err)
		}
		if f.Samples == 0 {
			continue
		}
		if err := m.publish(f); err != nil {
			return err
		}
	}
}

// source returns what a Reader needs to read the stream from its header on.
func (m *muxing) source(ctx context.Context, news <-chan struct{}) func(dst *millrace.Chain) error {
	begun := false
	return func(dst *millrace.Chain) error {
		if !begun {
			begun = true
			dst.AppendCopy(m.out.stream.live.head)
			return nil
		}
		for {
			b, err := m.cursor.Take(dst)
			if b.Missed.Why != broadcast.NotMissed {
				return errMuxingBehind
			}
			if err != nil || b.Bytes > 0 {
				return err
			}
			m.out.announce()
			select {
			case <-news:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}

// publish adds the fragment in part to the ring, and before the first one what every viewer begins with.
func (m *muxing) publish(f mp4.Fragment) error {
	if f.NewInit {
		if m.init {
			return errNewInit
		}
		var head millrace.Chain
		if err := m.muxer.AppendInit(&head); err != nil {
			return err
		}
		m.out.ring.SetPreamble(&head)
		m.init = true
	}
	return m.out.ring.Publish(&m.part, broadcast.Frame{Key: f.Key})
}
