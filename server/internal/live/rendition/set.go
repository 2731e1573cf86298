package rendition

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/broadcast"
	"github.com/millrace-io/millrace/server/internal/live/convert"
	"github.com/millrace-io/millrace/server/internal/live/fanout"
	"github.com/millrace-io/millrace/server/internal/live/flvstream"
)

// A Set holds one stream in all formats that its viewers get. Each format is a [Rendition].
//
// Only one goroutine at a time may call SetPublisher, Publish, Configure, ChangeTracks, Count,
// Pause or Flush. Any goroutine may call the other methods.
//
// Set.mu is locked before the mutex of a [broadcast.Ring]. The Set logs nothing while it holds mu.
type Set struct {
	*base
	live *Rendition          // the publisher's format
	made [formats]*Rendition // renditions made from live, or nil; guarded by mu
	// Renditions that were replaced because the codecs changed, and still have FragmentReaders;
	// guarded by mu.
	ended map[*Rendition]struct{}

	hasStart atomic.Bool  // see HasStart
	rate     atomic.Int64 // see Rate

	// Used only by the publisher's goroutine.
	meter meter
	cuts  int64 // number of GOPs that noteCuts has counted
}

// New returns the Set of a new stream in the publisher's format f. Viewers of f get head before any
// frame. If f is FLV, head is the FLV header. New borrows pool, which counts the memory of the
// stream. The caller must call SetPublisher before it publishes, and Close at the end.
func New(cfg *Config, log *slog.Logger, pool *millrace.Pool, f Format, head []byte) *Set {
	b := &base{cfg: cfg, log: log, memory: pool, facts: flvstream.NewFacts()}
	if f == FLV {
		b.facts.Promised = uint32(head[4])
	}
	return &Set{base: b, live: newRendition(b, f, head), ended: make(map[*Rendition]struct{})}
}

// Close ends the stream. Viewers get the remaining frames.
func (s *Set) Close() {
	s.facts.SetKnown() // no more tracks will come
	s.live.fanout.Close(fanout.StreamEnded)
}

// Format returns the format that the publisher sends.
func (s *Set) Format() Format { return s.live.format }

// Publish adds the frame in c, and takes ownership of c. The argument canStart reports whether
// viewers can start at the frame.
func (s *Set) Publish(c *millrace.Chain, canStart bool) error {
	if !s.begun { // only this goroutine writes begun
		s.mu.Lock()
		s.begun = true
		defer s.mu.Unlock()
	}
	return s.live.ring.Publish(c, broadcast.Frame{Key: canStart})
}

// Configure publishes a frame with configuration, such as a sequence header. preamble replaces the
// configuration that later viewers get before their first keyframe. Configure takes ownership of c
// and preamble.
func (s *Set) Configure(c, preamble *millrace.Chain) error {
	s.mu.Lock() // so that a viewer that joins now gets the frame once
	defer s.mu.Unlock()
	defer s.live.ring.SetPreamble(preamble)
	return s.live.ring.Publish(c, broadcast.Frame{})
}

// ChangeTracks publishes the first frame since a track has disappeared or returned. preamble has
// the headers of the tracks that the stream has now. canStart says whether viewers can start at the
// frame. ChangeTracks takes ownership of c and preamble.
func (s *Set) ChangeTracks(c, preamble *millrace.Chain, canStart bool) error {
	s.mu.Lock() // so that a conversion begins before both changes, or after both
	defer s.mu.Unlock()
	s.live.ring.SetPreamble(preamble)
	s.facts.TrackSet.Add(1)
	return s.live.ring.Publish(c, broadcast.Frame{Key: canStart})
}

// Flush sends the published frames to the viewers at once. It is called when nothing will be
// published for a while.
func (s *Set) Flush() { s.live.ring.Flush() }

// Count counts n bytes that the publisher has sent. now is in ns of a monotonic clock. Once a
// second, Count updates the result of Rate.
func (s *Set) Count(n int, now int64) {
	if s.meter.add(n, now) {
		s.rate.Store(s.meter.rate)
		s.noteCuts()
	}
}

// Pause records that the publisher has left. Rate returns 0 until the next publisher comes.
func (s *Set) Pause() {
	s.meter = meter{}
	s.rate.Store(0)
	s.noteCuts()
}

// Rate returns the publisher's bit rate, in bits per second. It returns 0 in the publisher's first
// second, and while there is no publisher.
func (s *Set) Rate() int64 { return s.rate.Load() }

// noteCuts counts the GOPs at which new viewers can no longer start. Usually, such a GOP is too
// long for the ring.
func (s *Set) noteCuts() {
	n := int64(s.Stats().GroupsCut)
	if n == s.cuts {
		return
	}
	s.cfg.Counters.GroupsCut.Add(n - s.cuts)
	if s.cuts == 0 {
		go s.log.Warn(
			"a GOP is longer than the kept frames: new viewers wait for the next keyframe "+
				"(--keep-bytes, --keep-frames, or a shorter keyframe interval)",
			"keep-bytes", s.cfg.KeepBytes, "keep-frames", s.cfg.KeepFrames)
	}
	s.cuts = n
}

// NoteStart makes HasStart return true. It must be called when a frame at which viewers can start
// has been published.
func (s *Set) NoteStart() {
	if !s.hasStart.Load() {
		s.hasStart.Store(true)
	}
}

// HasStart reports whether viewers can start at a frame that was published. Frames before the
// latest call to ForgetStart do not count.
func (s *Set) HasStart() bool { return s.hasStart.Load() }

// ForgetStart makes HasStart return false until NoteStart is called again.
func (s *Set) ForgetStart() { s.hasStart.Store(false) }

// StartIsKept reports whether the Set still has a keyframe at which viewers can start.
func (s *Set) StartIsKept() bool { return s.live.startIsKept() }

// Join adds a viewer that gets the stream in the format f. The viewer begins at start: the newest
// keyframe or, if nextKey is true, the next one. Before the first frame of the stream, nextKey has
// no effect. If start.Cursor is nil, the caller must get the position from Rendition.AwaitReady.
// The caller must call Leave when the viewer ends.
func (s *Set) Join(f Format, nextKey bool) (r *Rendition, start fanout.Start) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r = s.get(f)
	r.viewers++
	switch {
	case !nextKey || !s.begun: // at the start of a stream there is nothing to skip
		start = s.startAtKey(r)
	case r.ready == nil:
		start = r.startAtNextKey()
	} // otherwise AwaitReady returns the start, when the kept frames are converted
	return r, start
}

// Leave removes a viewer of r.
func (s *Set) Leave(r *Rendition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.viewers--
	s.stopUnused(r)
}

// Restart returns the position of the newest keyframe for a viewer of r that continues after a
// pause.
func (s *Set) Restart(r *Rendition) fanout.Start {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.startAtKey(r)
}

// startAtKey returns the position of the newest keyframe. The caller must hold mu.
func (s *Set) startAtKey(r *Rendition) fanout.Start {
	start := startAt(r.viewerCursor())
	start.Age = s.live.keyAge()
	return start
}

// get returns the Rendition in the format f. If the stream is not being converted to this format
// yet, get starts the conversion. The caller must hold mu.
func (s *Set) get(f Format) *Rendition {
	if f == s.live.format {
		return s.live
	}
	if s.made[f] == nil {
		s.startConversion(f)
	}
	return s.made[f]
}

// startConversion starts the conversion to the format f. The caller must hold mu.
func (s *Set) startConversion(f Format) {
	r := newRendition(s.base, f, nil)
	c := newConversion(s, r)
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	s.made[f] = r
	go s.run(ctx, c)
}

func (s *Set) run(ctx context.Context, c *conversion) {
	why := c.run(ctx)
	s.retire(c.to) // before Close, so that a viewer that reconnects does not get c.to
	c.to.fanout.Close(why)
}

// stopUnused stops the conversion to r if nothing reads r. The caller must hold mu.
func (s *Set) stopUnused(r *Rendition) {
	if len(r.readers) == 0 {
		delete(s.ended, r)
	}
	if r.viewers+len(r.readers) == 0 && r != s.live {
		s.forget(r)
		r.stop()
	}
}

// retire removes r from s.made, so that the next viewer of the format gets a new rendition.
func (s *Set) retire(r *Rendition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(r)
}

// forget removes r from s.made, if r is there. The caller must hold mu.
func (s *Set) forget(r *Rendition) {
	if s.made[r.format] == r {
		s.made[r.format] = nil
	}
}

// All returns the renditions of the stream that exist at present.
func (s *Set) All() []*Rendition {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := []*Rendition{s.live}
	for _, r := range s.made {
		if r != nil {
			list = append(list, r)
		}
	}
	for r := range s.ended {
		list = append(list, r)
	}
	return list
}

// Viewers returns the number of viewers that get the stream in the format f.
func (s *Set) Viewers(f Format) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch r := s.made[f]; {
	case f == s.live.format:
		return s.live.viewers
	case r != nil:
		return r.viewers
	}
	return 0
}

// MP4Time returns the timestamp of the newest MP4 fragment, or 0 if no MP4 is made.
func (s *Set) MP4Time() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.made[MP4]; r != nil {
		if newest, ok := r.ring.Stats().Info.(*convert.Fragment); ok {
			return newest.End
		}
	}
	return 0
}

// Stats describes the frames that the Set keeps in the publisher's format.
func (s *Set) Stats() broadcast.Stats { return s.live.Stats() }

// KeyAge returns the age of the newest keyframe at which viewers can start. If viewers begin
// without a keyframe, it returns 0.
func (s *Set) KeyAge() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.live.keyAge()
}
