package relay

import (
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/broadcast"
	"github.com/millrace-io/millrace/server/internal/lock"
	"github.com/millrace-io/millrace/server/internal/refuse"
	"github.com/millrace-io/millrace/server/internal/relay/fanout"
	"github.com/millrace-io/millrace/server/internal/relay/flvstream"
	"github.com/millrace-io/millrace/server/internal/relay/hlslive"
)

// A stream is what the publishers of a name send, one after the other, for viewers who stay meanwhile.
//
// From newStream to end it is in hub.streams, and either has a publisher, from grant to handOver, or waits for one. A
// publisher writes to the stream in this time only. The first publisher decides on the format; only FLV outlives it.
// In a cluster the publisher is a pull if another node owns the stream.
type stream struct {
	hub     *Hub
	name    string
	log     *slog.Logger
	started time.Time
	memory  *millrace.Pool // an account of the blocks that its publishers' bytes are in

	facts *flvstream.Facts // if it is FLV

	live *rendition // the stream as it comes; set under hub.mu, and from then on viewers can find it
	feed feed       // the publisher's; ended with the stream

	succession                       // guarded by hub.mu
	ownership                        // guarded by hub.mu
	hls        hlslive.SequenceStart // for its next window; guarded by hub.mu
	figures

	mu       lock.Mutex
	audience            // guarded by mu
	begun    bool       // a frame was published that a viewer cannot start after; guarded by mu
	made     renditions // made from live, each while it has viewers. Guarded by mu
}

// renditions are those of a stream, by format; nil where there is none.
type renditions [formats]*rendition

// forget removes r, if it is there.
func (m *renditions) forget(r *rendition) {
	if m[r.format] == r {
		m[r.format] = nil
	}
}

// figures are what a stream counts. The publisher's goroutine writes most of them, and others read them.
type figures struct {
	rate      atomic.Int64 // bits per second, lately
	frameAt   atomic.Int64 // when the last frame came; see now
	returns   atomic.Int64 // of publishers
	takeovers atomic.Int64
	lost      atomic.Int64 // frames that viewers were moved past
}

// An audience is the viewers of a stream, without other nodes.
type audience struct {
	viewers    int   // of all renditions
	leftAt     int64 // when one left last; see now
	maxViewers int   // that the publisher is allowed; 0: no limit of its own
}

// newStream adds a stream, which is to be granted to a publisher. hub.mu is held.
func (h *Hub) newStream(name string) *stream {
	s := &stream{hub: h, name: name, started: time.Now(), log: h.log.With("stream", name),
		facts: flvstream.NewFacts(), memory: millrace.DefaultPool().Account()}
	s.feed.s = s
	s.peers = make(map[*viewer]struct{})
	s.leftAt = now() - int64(h.pullIdle)
	s.frameAt.Store(now())
	h.streams[name] = s
	return s
}

// open says what the publisher sends, and lets viewers find the stream.
func (s *stream) open(f format, head []byte) {
	s.hub.counters.published.Add(1)
	if f == formatFLV {
		s.facts.Promised = uint32(head[4])
	}
	s.hub.announce(s, s.newRendition(f, head))
	s.log.Info("publisher started", "publisher", s.publisher.address, "format", f.String())
}

// format returns the format for a viewer.
func (s *stream) format(want watchRequest) (format, error) {
	f := s.live.format
	switch {
	case want.asIs || want.format == f:
		return f, nil
	case f == formatRaw:
		return 0, refuse.New(http.StatusNotAcceptable,
			"stream %q is not FLV, so it cannot be had as %s: ask for /live/%[1]s", s.name, want.format)
	case want.format == formatMP4:
		return formatMP4, s.checkMP4()
	}
	return want.format, nil
}

// checkMP4 refuses viewers of MP4 if there is nothing for them.
func (s *stream) checkMP4() error {
	if !s.facts.NoMP4() {
		return nil
	}
	return refuse.New(http.StatusNotAcceptable,
		"stream %q has nothing that MP4 is made of here (H.264, H.265, AAC): ask for /live/%[1]s.flv", s.name)
}

// enter adds a viewer, which exit removes. The caller holds hub.mu.
func (s *stream) enter(want watchRequest) (*viewer, error) {
	f, err := s.format(want)
	peer := want.node != ""
	if peer && (s.lease == nil || s.lease.Epoch() == 0) {
		err = errNotOwner(s.name)
	}
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if limit := s.hub.cfg.MaxStreamViewers; s.viewers >= limit && !peer {
		return nil, refuse.New(http.StatusServiceUnavailable,
			"this stream has %d viewers, as many as --max-stream-viewers allows", limit).For(refuse.Limit)
	}
	if s.maxViewers > 0 && s.viewers >= s.maxViewers && !peer {
		return nil, refuse.New(http.StatusServiceUnavailable,
			"this stream has %d viewers, as many as its publisher is allowed", s.maxViewers).For(refuse.Limit)
	}
	r := s.rendition(f)
	r.viewers++
	v := &viewer{rendition: r, remote: want.remote, since: now(), terms: want.terms}
	next := want.next
	if peer {
		v.node, v.lease = want.node, s.lease
		next = next || !s.ownStart.Load() // what there is came from an owner before
	} else {
		s.viewers++
	}
	switch {
	case !next || !s.begun: // at the start of a stream there is nothing to leave out
		v.start = r.startAtKey()
	case r.ready == nil:
		v.start = r.startAtNextKey()
	} // otherwise the viewer begins when what is there has been made
	return v, nil
}

// rendition returns the form f of s, and has it made if it is not. s.mu is held.
func (s *stream) rendition(f format) *rendition {
	if f == s.live.format {
		return s.live
	}
	if s.made[f] == nil {
		s.made[f] = s.convert(f)
	}
	return s.made[f]
}

// exit removes a viewer.
func (s *stream) exit(v *viewer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v.lease == nil {
		s.viewers--
		s.leftAt = now()
	}
	v.rendition.viewers--
	s.stopUnused(v.rendition)
}

// unwatched returns for how long there are no viewers. Hub.mu is held.
func (s *stream) unwatched() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.viewers+len(s.hub.waiting[s.name]) > 0 {
		return 0
	}
	return time.Duration(now() - s.leftAt)
}

// leave removes a fragmentReader of r.
func (s *stream) leave(r *rendition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.readers--
	s.stopUnused(r)
}

// stopUnused ends the making of r if nothing takes it. s.mu is held.
func (s *stream) stopUnused(r *rendition) {
	if r.viewers+r.readers == 0 && r != s.live {
		s.made.forget(r)
		r.stop()
	}
}

// retire makes the next viewer of r's format get another rendition.
func (s *stream) retire(r *rendition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.made.forget(r)
}

// publish adds a frame to the stream. It takes ownership of c.
func (s *stream) publish(c *millrace.Chain, key bool) error {
	if !s.begun { // only this goroutine writes it
		s.mu.Lock()
		s.begun = true
		defer s.mu.Unlock()
	}
	return s.live.ring.Publish(c, broadcast.Frame{Key: key})
}

// configure adds a frame that is also what viewers need before they can start at a later key frame. It takes ownership
// of both.
func (s *stream) configure(c, preamble *millrace.Chain) error {
	s.mu.Lock() // so that a viewer that enters gets it once
	defer s.mu.Unlock()
	defer s.live.ring.SetPreamble(preamble)
	return s.live.ring.Publish(c, broadcast.Frame{})
}

// currentPublisher returns the newest publisher of s.
func (s *stream) currentPublisher() *Publisher {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	return s.publisher
}

// noteLost counts frames that viewers were moved past.
func (s *stream) noteLost(m broadcast.Missed) {
	s.lost.Add(int64(m.Frames))
	s.hub.counters.lost[m.Why].Add(int64(m.Frames))
}

// end closes the stream, which has no publisher any more: viewers get the rest, the name is free, and later viewers
// wait for the next stream. hub.mu is held.
func (s *stream) end() {
	s.stopWaiting()
	s.facts.SetKnown() // there will be no more
	delete(s.hub.streams, s.name)
	s.giveUp()
	s.feed.release()
	if s.live != nil {
		s.live.fanout.Close(fanout.StreamEnded)
	}
}

// renditions returns those that are being made.
func (s *stream) renditions() []*rendition {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := []*rendition{s.live}
	for _, r := range s.made {
		if r != nil {
			list = append(list, r)
		}
	}
	return list
}
