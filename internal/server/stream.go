package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/broadcast"
	"github.com/millrace-io/millrace/frame/flv"
)

// A form is how a stream's bytes are made.
type form uint8

const (
	formFLV form = iota
	formMP4
	formRaw // anything: relayed as it comes

	forms // how many there are
)

func (f form) String() string { return [forms]string{"flv", "mp4", "raw"}[f] }

func (f form) contentType() string {
	return [forms]string{"video/x-flv", "video/mp4", "application/octet-stream"}[f]
}

// A stream is what one publisher sends, from its first byte to its last.
type stream struct {
	server    *Server
	name      string
	publisher string // its address, or "demo"
	log       *slog.Logger
	started   time.Time
	allow     broadcast.Lag // how far a viewer may be behind
	batch     int           // how many bytes a viewer takes at a time

	announced bool // viewers can find it; guarded by registry.mu

	// Set before it is announced.
	live *outlet // as it comes

	// The publisher's goroutine writes these and others read them.
	bytesIn  atomic.Int64
	framesIn atomic.Int64
	rate     atomic.Int64 // bits per second, lately
	dark     atomic.Bool  // see blackout: sound counts as key frames
	settled  atomic.Bool  // see ingest.settle: video and audio say what there is
	video    atomic.Pointer[track]
	audio    atomic.Pointer[track]

	lost atomic.Int64 // frames that viewers were moved past
	cut  int64        // groups of pictures that noteCuts has counted; whoever feeds the stream owns it

	mu      sync.Mutex
	viewers int     // watching, in all forms
	awaited int     // viewers who waited for the stream and have not come yet
	begun   bool    // a frame was published that a viewer cannot start after
	mp4     *muxing // what makes MP4 of it, while somebody watches that
	closed  bool
}

func (s *Server) newStream(name, publisher string) *stream {
	st := &stream{
		server: s, name: name, publisher: publisher, started: time.Now(),
		log:   s.log.With("stream", name),
		allow: broadcast.Lag{Bytes: s.cfg.LagBytes, Frames: s.cfg.LagFrames, Time: s.cfg.LagTime},
		batch: batchBytes,
	}
	if allow := st.allow.Bytes; allow > 0 {
		st.batch = int(min(batchBytes, max(allow/4, 4<<10))) // what is taken and not yet sent counts as lag
	}
	return st
}

const (
	// minPieces is room for fragments of MP4 whatever --keep-frames is: 90 seconds of sound, in 185 KiB.
	minPieces = 1 << 12
	// maxPieces is where a large --keep-bytes ends to make room for pieces of a KiB, as broadcast's own default does.
	maxPieces = 1 << 18
)

// newRing returns the ring of an outlet.
func (s *stream) newRing(f form) *broadcast.Ring {
	cfg := &s.server.cfg
	opts := []broadcast.Option{broadcast.MaxBytes(cfg.KeepBytes), broadcast.MaxFrames(cfg.KeepFrames)}
	if f == formMP4 {
		// Each picture and each bit of sound in a fragment is a piece, and there are two of its own around them.
		// Large pictures lie in several, however many frames are kept.
		opts = append(opts, broadcast.MaxPieces(max(minPieces, 2*cfg.KeepFrames, int(min(cfg.KeepBytes>>10, maxPieces)))))
	}
	return broadcast.New(opts...)
}

// announce has the viewers served with what was published. Whoever feeds the stream calls it, and knows when there is
// no more to come for a while.
func (s *stream) announce() {
	if s.live != nil {
		s.live.announce()
	}
}

// announceSoon is announce within the latency bound, for callers that do not know.
func (s *stream) announceSoon() {
	if s.live != nil {
		s.live.announceSoon(s.server.cfg.Latency)
	}
}

// open settles what the publisher sends and lets viewers find the stream.
func (s *stream) open(f form, head []byte) {
	s.live = newOutlet(s, f, head, s.newRing(f))
	s.server.metrics.published.Add(1)
	s.server.registry.announce(s)
	s.log.Info("publisher started", "publisher", s.publisher, "format", f.String())
}

// cursor returns a new viewer's place in an outlet's ring: at the newest key frame. As long as nothing has been
// published that a viewer cannot start after, the cursor is at the head, so that those who were there first miss
// nothing.
func (s *stream) cursor(o *outlet) *broadcast.Cursor {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cursorLocked(o)
}

func (s *stream) cursorLocked(o *outlet, from ...broadcast.CursorOption) *broadcast.Cursor {
	return s.placeLocked(o, o.policy() == Skip, from...)
}

// source is cursor for what makes MP4. That is the server's own work and no slow client: it may be as far behind as is kept.
func (s *stream) source() *broadcast.Cursor {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.placeLocked(s.live, false)
}

// placeLocked is cursor, with the viewers' allowance or without one. from changes where it is, unless that is the head.
// s.mu is held.
func (s *stream) placeLocked(o *outlet, limited bool, from ...broadcast.CursorOption) *broadcast.Cursor {
	opts := []broadcast.CursorOption{
		broadcast.BatchBytes(s.batch), broadcast.BatchPieces(batchPieces),
		broadcast.MaxLagBytes(0), broadcast.MaxLagFrames(0), broadcast.MaxLagTime(0),
	}
	opts = append(opts, from...)
	if limited {
		opts = append(opts, broadcast.MaxLagBytes(s.allow.Bytes), broadcast.MaxLagFrames(s.allow.Frames),
			broadcast.MaxLagTime(s.allow.Time))
	}
	if o.form == formRaw || o.form == formFLV && !s.begun {
		opts = append(opts, broadcast.FromHead())
	}
	return o.ring.Cursor(opts...)
}

// form says how a viewer that asks for ext is served.
func (s *stream) form(ext string) (form, error) {
	f := s.live.form
	switch {
	case ext == "" || ext == extFLV && f == formFLV:
		return f, nil
	case f == formRaw:
		return 0, &formError{fmt.Sprintf("stream %q is not FLV, so it cannot be had as %s: ask for /live/%[1]s", s.name, ext)}
	}
	video, audio := s.video.Load(), s.audio.Load()
	if !s.settled.Load() || // more may come
		video == nil && audio == nil ||
		video != nil && (video.codec == flv.AVC || video.codec == flv.HEVC) ||
		audio != nil && audio.codec == flv.AAC {
		return formMP4, nil
	}
	return 0, &formError{fmt.Sprintf(
		"stream %q has nothing that MP4 is made of here (H.264, H.265, AAC): ask for /live/%[1]s.flv", s.name)}
}

// enter takes a place among a stream's viewers, and returns the outlet that serves them with a cursor in its ring. exit
// gives the place back. first is nil, or a cursor at the stream's start, as await gives it; it is the callee's if there
// is no error. With next the cursor is at the next key frame, except at the start, where nothing is kept. It is nil for
// MP4: see nextOf.
func (s *stream) enter(f form, first *broadcast.Cursor, next bool) (*outlet, *broadcast.Cursor, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if limit := s.server.cfg.MaxStreamViewers; s.viewers >= limit {
		return nil, nil, &fullError{fmt.Sprintf("this stream has %d viewers, as many as --max-stream-viewers allows", limit)}
	}
	if s.closed && first == nil {
		return nil, nil, errEnded
	}
	s.viewers++
	if f == formMP4 {
		out, c := s.enterMP4(first, next && first == nil)
		return out, c, nil
	}
	switch {
	case first != nil:
	case next:
		first = s.cursorLocked(s.live, broadcast.FromNextKey())
	default:
		first = s.cursorLocked(s.live)
	}
	return s.live, first, nil
}

// enterMP4 is enter for MP4. It takes ownership of first. s.mu is held.
func (s *stream) enterMP4(first *broadcast.Cursor, next bool) (*outlet, *broadcast.Cursor) {
	if first == nil && s.mp4 == nil {
		first = s.placeLocked(s.live, false)
	}
	m := s.mp4
	switch {
	case m == nil:
		m = s.newMuxing(first)
		s.mp4 = m
	case first != nil:
		if m.start != nil {
			m.cursor, first = first, m.cursor // it may have been made for somebody who has not waited
		}
		first.Close()
	}
	m.viewers++
	var c *broadcast.Cursor
	if !next {
		c = s.cursorLocked(m.out)
	}
	if s.awaited == 0 {
		m.begin() // now that the first viewer's cursor is there
	}
	return m.out, c
}

// nextOf returns a cursor at the next key frame of o, which makes MP4. Of what is there that may have been made only in
// part, and then the key frame that comes next is an old one: it waits until all has been made. With an error the place
// is given back.
func (s *stream) nextOf(ctx context.Context, o *outlet) (*broadcast.Cursor, error) {
	select {
	case <-o.mux.level:
	case <-ctx.Done():
		s.exit(o)
		return nil, ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cursorLocked(o, broadcast.FromNextKey()), nil
}

// await notes that n viewers have waited for the stream. None of them misses its start if the making of MP4 begins when the
// last of them has come.
func (s *stream) await(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.awaited = n
}

// arrived notes that one of those has entered, or will not.
func (s *stream) arrived() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.awaited--; s.awaited == 0 && s.mp4 != nil {
		s.mp4.begin()
	}
}

// exit gives up a viewer's place.
func (s *stream) exit(o *outlet) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.viewers--
	m := o.mux
	if m == nil {
		return
	}
	if m.viewers--; m.viewers == 0 {
		m.stop()
		m.begin() // if it never was: it gives back what it has
		if s.mp4 == m {
			s.mp4 = nil
		}
	}
}

// publish adds a frame to the stream. It takes ownership of c.
func (s *stream) publish(c *millrace.Chain, key bool) error {
	n := c.Len()
	if !s.begun { // only this goroutine writes it
		s.mu.Lock()
		s.begun = true
		defer s.mu.Unlock()
	}
	if err := s.live.ring.Publish(c, broadcast.Frame{Key: key}); err != nil {
		return err
	}
	s.count(n)
	return nil
}

// count notes a frame of n bytes from the publisher.
func (s *stream) count(n int) {
	s.bytesIn.Add(int64(n))
	s.framesIn.Add(1)
	s.server.metrics.bytesIn.Add(int64(n))
	s.server.metrics.framesIn.Add(1)
}

// noteCuts counts the groups of pictures that have lost their key frame to what is kept. Whoever feeds the stream calls it from
// time to time.
func (s *stream) noteCuts() {
	n := int64(s.live.ring.Stats().GroupsCut)
	if n == s.cut {
		return
	}
	s.server.metrics.groupsCut.Add(n - s.cut)
	if s.cut == 0 {
		cfg := &s.server.cfg
		s.log.Warn("a group of pictures is longer than what is kept: who comes late gets nothing until the next key frame "+
			"(--keep-bytes, --keep-frames, or a shorter key frame interval)", "keep-bytes", cfg.KeepBytes, "keep-frames", cfg.KeepFrames)
	}
	s.cut = n
}

// configure adds a frame that is also what viewers need before they can start at a later key frame. It takes ownership of
// both.
func (s *stream) configure(c, preamble *millrace.Chain) error {
	s.mu.Lock() // so that a viewer that joins gets it once
	defer s.mu.Unlock()
	n := c.Len()
	err := s.live.ring.Publish(c, broadcast.Frame{})
	s.live.ring.SetPreamble(preamble)
	if err == nil {
		s.count(n)
	}
	return err
}

// end closes the stream: nothing can be published any more, and viewers get the rest.
func (s *stream) end() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.server.registry.free(s) // from now on viewers wait for the next publisher
	if s.live != nil {
		s.noteCuts()
		s.live.close(finished)
	}
}

// blocked returns how many viewers are driven by goroutines of their own.
func (s *stream) blocked() int {
	n := s.live.blocked()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mp4 != nil {
		n += s.mp4.out.blocked()
	}
	return n
}

// A track is what is known of a stream's pictures or sound.
type track struct {
	codec flv.Codec
	name  string // for people, as in "h264 640x360"
}

// describe notes what a tag says about the stream's pictures or sound. size may be "".
func (s *stream) describe(t flv.Tag, size string) {
	tr := &track{codec: t.Codec, name: codecName(t.Codec)}
	if t.Type == flv.TypeAudio {
		s.audio.Store(tr)
		return
	}
	if size != "" {
		tr.name += " " + size
	}
	s.video.Store(tr)
}

// codecName is the name that people and browsers' consoles use.
func codecName(c flv.Codec) string {
	switch c {
	case flv.AVC:
		return "h264"
	case flv.HEVC:
		return "h265"
	}
	return strings.ToLower(c.String())
}

// explain puts the reason for a stream's end into words.
func explain(err error) string {
	if err == nil {
		return "end of the body"
	}
	var limit *flv.LimitError
	if errors.As(err, &limit) && strings.HasPrefix(limit.What, "tag data") {
		return fmt.Sprintf("%v (--max-tag-bytes)", err)
	}
	return err.Error()
}
