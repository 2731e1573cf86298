package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/broadcast"
	"github.com/millrace-io/millrace/frame/flv"
	"github.com/millrace-io/millrace/frame/mp4"
)

// A muxing makes fragmented MP4 of a stream, for as long as somebody watches that. It is one goroutine with a cursor in the
// stream's ring and a ring of its own.
type muxing struct {
	out   *outlet
	stop  context.CancelFunc
	level chan struct{} // closed when all that was there at the start has been made into fragments, or none will be made

	// Guarded by stream.mu.
	viewers int    // the last one to leave ends it
	start   func() // starts the goroutine; nil when it was called

	// The goroutine's own, once it runs.
	cursor  *broadcast.Cursor
	muxer   *mp4.Muxer
	tag     millrace.Chain
	part    millrace.Chain // a fragment
	untold  int            // bytes of fragments since viewers were told
	reached bool           // level is closed
	init    bool           // viewers have been given an init segment
	refused error          // the first tag that had no place in the file

	blackout blackout
	skipped  bool   // frames are missing in front of the next one
	skips    int    // how often that was so
	shift    uint32 // what those were, in ms: it is taken off the time of all that follows
	last     uint32 // time of the last frame in the file
}

// errNewInit ends an MP4 file in the middle of a stream: it has one header, and the stream's codecs have changed.
var errNewInit = errors.New("the stream's codecs changed, and an MP4 file cannot follow: viewers must come again")

const (
	// fragmentRoom is what a fragment may have beside the samples that a muxer's MaxWaitBytes counts: a header of 2 KiB, and a
	// frame of sound that was open when the fragment before left.
	fragmentRoom = 16 << 10
	// toldBytes is how much of a flood is made before viewers are told. An encoder's stream never gets there.
	toldBytes = 64 << 10
)

// newMuxing returns a muxing of what c gives, which begin starts. It takes ownership of c. s.mu is held.
func (s *stream) newMuxing(c *broadcast.Cursor) *muxing {
	ctx, stop := context.WithCancel(context.Background())
	m := &muxing{stop: stop, level: make(chan struct{}), cursor: c}
	m.blackout.dark = s.dark.Load() // then c is at a piece of sound
	m.start = func() { go m.run(ctx) }
	m.out = newOutlet(s, formMP4, nil, s.newRing(formMP4))
	m.out.mux = m
	fits := min(mp4.DefaultMaxWaitBytes, s.server.cfg.KeepBytes-fragmentRoom) // so that the ring takes every fragment
	m.muxer = mp4.NewMuxer(mp4.Tracks(s.promises()), mp4.MaxWaitBytes(int(fits)))
	return m
}

// begin starts the goroutine, unless it was started. s.mu is held.
func (m *muxing) begin() {
	if m.start != nil {
		m.start()
		m.start = nil
	}
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
	why := unmade
	defer m.stop()
	defer func() { m.out.close(why) }()
	defer m.cursor.Close()
	defer m.retire()
	defer func() {
		if cause := recover(); cause != nil {
			s.log.Error("making MP4 failed", "cause", fmt.Sprint(cause), "stack", string(debug.Stack()))
		}
	}()
	s.log.Debug("MP4 started")
	err := m.convert(ctx)
	if err == nil {
		err = m.flush()
	}
	m.muxer.Release()
	m.tag.Release()
	m.part.Release()
	level := slog.LevelDebug
	switch {
	case err == nil || ctx.Err() != nil:
		why = finished // or nobody is there
	case err == errNewInit:
		why, level = recoded, slog.LevelInfo
	default:
		level = slog.LevelWarn
	}
	s.log.Log(ctx, level, "MP4 ended", "reason", explain(err))
}

// retire lets the next viewer who wants MP4 start anew.
func (m *muxing) retire() {
	m.reach()
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
		if err := m.hopeless(&t); err != nil {
			return err
		}
		if err := m.place(&t); err != nil {
			return err
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

// hopeless says that there will be nothing in the file: its viewers came before that was known.
func (m *muxing) hopeless(t *flv.Tag) error {
	if m.init || t.Packet != flv.PacketFrame {
		return nil
	}
	_, err := m.out.stream.form(extMP4)
	return err
}

// source returns what a Reader needs to read the stream from its header on.
func (m *muxing) source(ctx context.Context, news <-chan struct{}) func(dst *millrace.Chain) error {
	begun, due := false, 0
	return func(dst *millrace.Chain) error {
		if !begun {
			begun, due = true, m.cursor.Lag().Frames
			dst.AppendCopy(m.out.stream.live.head)
			return nil
		}
		if due <= 0 { // what was taken before has been read
			m.reach()
		}
		for ctx.Err() == nil {
			b, err := m.cursor.Take(dst)
			missed := b.Missed.Why != broadcast.NotMissed
			due -= b.Frames + b.Missed.Frames
			if missed {
				m.miss(b.Missed)
			}
			if err != nil || b.Bytes > 0 {
				return err
			}
			if missed {
				continue // the stream has ended
			}
			m.tell()
			select {
			case <-news:
			case <-ctx.Done():
			}
		}
		return ctx.Err()
	}
}

// reach closes level.
func (m *muxing) reach() {
	if !m.reached {
		m.reached = true
		close(m.level)
	}
}

// miss notes that frames were gone before they were read: the processor was busy with others, or the stream came faster than it
// can be followed. A batch begins where viewers may begin, and so the file goes on there.
func (m *muxing) miss(lost broadcast.Missed) {
	s := m.out.stream
	s.mu.Lock()
	viewers := m.viewers
	s.mu.Unlock()
	m.skipped = true
	if m.skips++; m.skips == 1 {
		s.log.Warn("the making of MP4 is behind what is kept, and skips to the newest key frame", "viewers", viewers,
			"frames", lost.Frames, "bytes", lost.Bytes, "reason", lost.Why.String())
	}
	lost.Frames *= viewers
	s.lost.Add(int64(lost.Frames))
	s.server.metrics.lost(lost)
}

// place moves t to its time in the file. Where frames are missing the file goes on without a pause: in a pause a browser would
// go on with the sound at once, and be as long late with the pictures from then on.
func (m *muxing) place(t *flv.Tag) error {
	if t.Packet != flv.PacketFrame {
		return nil
	}
	m.blackout.note(*t, m.out.ring)
	if m.skipped {
		m.skipped = false
		m.shift = t.Timestamp - m.last
		if m.init {
			if err := m.flush(); err != nil {
				return err
			}
		}
		m.muxer.Release() // and pictures are dropped up to a key frame
		m.blackout.dark = t.Type == flv.TypeAudio
	}
	t.Timestamp -= m.shift
	m.last = t.Timestamp
	return nil
}

// flush publishes what waits in the muxer.
func (m *muxing) flush() error {
	f := m.muxer.Flush(&m.part)
	if f.Samples == 0 {
		return nil
	}
	return m.publish(f)
}

// tell has the viewers served.
func (m *muxing) tell() {
	m.untold = 0
	m.out.announce()
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
	m.untold += m.part.Len()
	// The muxer takes sound for a place to start if there are no pictures at all.
	if err := m.out.ring.Publish(&m.part, broadcast.Frame{Key: f.Key || m.blackout.dark}); err != nil {
		return err
	}
	if m.untold >= toldBytes {
		m.tell()
	}
	return nil
}
