package relay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/broadcast"
	"github.com/millrace-io/millrace/frame/flv"
	"github.com/millrace-io/millrace/frame/mp4"
)

// An mp4Rendition converts a stream to fragmented MP4 while it has MP4 viewers. It is one goroutine with a cursor in
// the stream's ring, which publishes to the ring of a rendition of its own.
type mp4Rendition struct {
	out    *rendition
	live   *rendition
	cursor *broadcast.Cursor
	ready  chan struct{} // see rendition

	muxer    *mp4.Muxer
	tag      millrace.Chain
	fragment millrace.Chain
	unheard  int                    // bytes of fragments since viewers were served
	init     bool                   // viewers have been given an init segment
	heads    map[flv.Type]flv.Codec // of the sequence headers that the muxer has taken
	fits     bool                   // a frame of such a codec has come
	hope     hopeTimer
	refused  error // the first tag that had no place in the file

	gap     videoGap
	skipped bool    // frames are missing in front of the next one
	warned  bool    // that was logged
	shift   uint32  // what those were, in ms: it is taken off the time of all that follows
	placed  bool    // there was a frame
	last    uint32  // time of the last frame in the file
	resumed *uint32 // of the stream: the newest continuation that was reached
}

// errNewInit ends an MP4 file in the middle of a stream: it has one header, and the stream's codecs have changed.
var errNewInit = errors.New("the stream's codecs changed, and an MP4 file cannot follow: viewers must come again")

// errNoTrack ends an MP4 file that has nothing to play.
var errNoTrack = errors.New("no frame of H.264, H.265 or AAC has come after its sequence header")

const (
	// fragmentRoom is what a fragment may have beside the samples that a muxer's MaxWaitBytes counts: a header of 2 KiB,
	// and a frame of sound that was open when the fragment before left.
	fragmentRoom = 16 << 10
	// unheardBytes is how much of a flood is made before viewers are served. An encoder's stream never gets there.
	unheardBytes = 64 << 10
)

// leastPause is how much of a stream, in ms, is without frames because it waited for its publisher before that is taken
// out of the file.
const leastPause = 100

// newMP4Rendition starts the making of MP4. s.mu is held.
func (s *stream) newMP4Rendition() *rendition {
	m := s.newMP4()
	ctx, stop := context.WithCancel(context.Background())
	m.out.stop = stop
	go m.run(ctx)
	return m.out
}

// newMP4 is newMP4Rendition without the goroutine. s.mu is held.
func (s *stream) newMP4() *mp4Rendition {
	m := &mp4Rendition{live: s.live, cursor: s.live.source(), ready: make(chan struct{}), heads: make(map[flv.Type]flv.Codec)}
	m.gap.open = s.noVideo.Load() // then the cursor is at a piece of sound
	m.out = s.newRendition(formatMP4, nil)
	m.out.ready = m.ready
	fits := min(mp4.DefaultMaxWaitBytes, s.hub.cfg.KeepBytes-fragmentRoom) // so that the ring takes every fragment
	m.muxer = mp4.NewMuxer(mp4.Tracks(s.promises()), mp4.MaxWaitBytes(int(fits)))
	return m
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
func (m *mp4Rendition) run(ctx context.Context) {
	log, why := m.live.stream.log, makingFailed
	defer func() { m.out.close(why) }()
	defer m.cursor.Close()
	defer m.live.stream.retire(m.out)
	defer m.setReady()
	defer func() {
		if cause := recover(); cause != nil {
			log.Error("making MP4 failed", "cause", fmt.Sprint(cause), "stack", string(debug.Stack()))
		}
	}()
	log.Debug("MP4 started")
	err := m.convert(ctx)
	if err == nil {
		err = m.finishFragment()
	}
	m.muxer.Release()
	m.tag.Release()
	m.fragment.Release()
	level := slog.LevelDebug
	switch {
	case err == nil || ctx.Err() != nil: // or it has no viewers
		why = streamEnded
	case err == errNewInit:
		why, level = codecsChange, slog.LevelInfo
	default:
		level = slog.LevelWarn
	}
	log.Log(ctx, level, "MP4 ended", "reason", explain(err))
}

// convert reads tags from the stream's ring and publishes fragments. It returns nil at the stream's end.
func (m *mp4Rendition) convert(ctx context.Context) error {
	news := m.live.ring.Watch()
	defer news.Stop()
	r := millrace.NewReaderFrom(m.source(ctx, news))
	defer r.Release()
	dec := flv.NewDecoder(r, flv.MaxTag(min(m.live.stream.hub.cfg.MaxTagBytes, flv.MaxData)))
	for {
		t, err := dec.Next(&m.tag)
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = m.hopeless(&t)
		}
		if err == nil {
			err = m.place(&t)
		}
		if err != nil {
			return err
		}
		f, err := m.muxer.WriteTag(&m.fragment, t, &m.tag)
		if err == nil && t.SequenceHeader {
			m.heads[t.Type] = t.Codec
		}
		if err != nil && m.refused == nil {
			m.refused = err
			m.live.stream.log.Warn("MP4 leaves something out", "reason", err)
		}
		if f.Samples == 0 {
			continue
		}
		if err := m.publish(f); err != nil {
			return err
		}
	}
}

// hopeless returns an error if there will be nothing in the file: its viewers came before that was known.
func (m *mp4Rendition) hopeless(t *flv.Tag) error {
	if m.init || t.Packet != flv.PacketFrame {
		return nil
	}
	codec, known := m.heads[t.Type]
	m.fits = m.fits || known && codec == t.Codec
	if m.hope.passed(t.Timestamp) && !m.fits {
		return cmp.Or(m.refused, errNoTrack)
	}
	_, err := m.live.stream.format(extMP4)
	return err
}

// source returns what a Reader needs to read the stream from its header on.
func (m *mp4Rendition) source(ctx context.Context, news *broadcast.Watcher) func(dst *millrace.Chain) error {
	begun, due := false, 0 // frames that were there at the start, and have not been taken
	return func(dst *millrace.Chain) error {
		if !begun {
			begun, due = true, m.cursor.Lag().Frames
			dst.AppendCopy(m.live.head)
			return nil
		}
		if due <= 0 { // what was taken before has been read
			m.setReady()
		}
		for ctx.Err() == nil {
			b, err := m.cursor.Take(dst)
			due -= b.Frames + b.Missed.Frames
			if b.Missed.Why != broadcast.NotMissed {
				m.miss(b.Missed)
			}
			if err != nil || b.Bytes > 0 {
				return err
			}
			if b.More {
				continue
			}
			m.flush()
			select {
			case <-news.C:
			case <-ctx.Done():
			}
		}
		return ctx.Err()
	}
}

// setReady closes ready.
func (m *mp4Rendition) setReady() {
	select {
	case <-m.ready:
	default:
		close(m.ready)
	}
}

// miss notes that frames were gone before they were read: the processor was busy, or the stream came faster than it
// can be converted. A batch begins where viewers may begin, and so the file goes on there.
func (m *mp4Rendition) miss(lost broadcast.Missed) {
	s := m.live.stream
	s.mu.Lock()
	viewers := m.out.viewers
	s.mu.Unlock()
	m.skipped = true
	if !m.warned {
		m.warned = true
		s.log.Warn("the making of MP4 is behind what is kept, and skips to the newest key frame", "viewers", viewers,
			"frames", lost.Frames, "bytes", lost.Bytes, "reason", lost.Why.String())
	}
	lost.Frames *= viewers
	s.noteLost(lost)
}

// place moves t to its time in the file. Where frames are missing, or the stream waited for its publisher, the file goes
// on without a pause: in a pause a browser would go on with the sound at once, and be as long late with the pictures
// from then on.
func (m *mp4Rendition) place(t *flv.Tag) error {
	if t.Packet != flv.PacketFrame {
		return nil
	}
	m.gap.note(*t, m.out.ring)
	if last := m.live.stream.resumed.Load(); last != m.resumed && int32(t.Timestamp-*last) > 0 {
		m.resumed = last
		m.skipped = m.skipped || m.placed && int32(t.Timestamp-m.shift-m.last) > leastPause
	}
	m.placed = true
	if m.skipped {
		m.skipped = false
		m.shift = t.Timestamp - m.last
		if m.init {
			if err := m.finishFragment(); err != nil {
				return err
			}
		}
		m.muxer.Release() // and pictures are dropped up to a key frame
		m.gap.open = t.Type == flv.TypeAudio
	}
	t.Timestamp -= m.shift
	m.last = t.Timestamp
	return nil
}

// finishFragment publishes what waits in the muxer.
func (m *mp4Rendition) finishFragment() error {
	f := m.muxer.Flush(&m.fragment)
	if f.Samples == 0 {
		return nil
	}
	return m.publish(f)
}

// flush has the viewers served: no more will come for a while.
func (m *mp4Rendition) flush() {
	m.unheard = 0
	m.out.ring.Flush()
}

// publish adds the fragment to the ring, and before the first one what every viewer begins with.
func (m *mp4Rendition) publish(f mp4.Fragment) error {
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
	m.unheard += m.fragment.Len()
	// The muxer takes sound for a place to start if there are no pictures at all.
	if err := m.out.ring.Publish(&m.fragment, broadcast.Frame{Key: f.Key || m.gap.open}); err != nil {
		return err
	}
	if m.unheard >= unheardBytes {
		m.flush()
	}
	return nil
}
