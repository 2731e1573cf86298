package relay

import (
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/server/internal/lock"
	"github.com/millrace-io/millrace/server/internal/refuse"
	"github.com/millrace-io/millrace/server/internal/relay/feed"
	"github.com/millrace-io/millrace/server/internal/relay/hlslive"
	"github.com/millrace-io/millrace/server/internal/relay/rendition"
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

	forms *rendition.Set // the frames in all formats; set under hub.mu, and from then on viewers can find the stream
	feed  *feed.Feed     // makes the frames, for the publisher; nil before forms is set, and unless the format is FLV

	succession                       // guarded by hub.mu
	ownership                        // guarded by hub.mu
	hls        hlslive.SequenceStart // for its next window; guarded by hub.mu
	figures

	mu       lock.Mutex
	audience // guarded by mu
}

// figures are what a stream counts. The publisher's goroutine writes most of them, and others read them.
type figures struct {
	frameAt   atomic.Int64 // when the last frame came; see now
	returns   atomic.Int64 // of publishers
	takeovers atomic.Int64
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
		memory: millrace.DefaultPool().Account()}
	s.peers = make(map[*viewer]struct{})
	s.leftAt = now() - int64(h.pullIdle)
	s.frameAt.Store(now())
	h.streams[name] = s
	return s
}

// open says what the publisher sends, and lets viewers find the stream.
func (s *stream) open(f rendition.Format, head []byte) {
	s.hub.counters.published.Add(1)
	forms := rendition.New(&s.hub.forms, s.log, s.memory, f, head)
	forms.SetPublisher(s.publisher.address)
	if f == rendition.FLV {
		s.feed = feed.New(forms, s.log, s.memory)
	}
	s.hub.announce(s, forms)
	s.log.Info("publisher started", "publisher", s.publisher.address, "format", f.String())
}

// format returns the format for a viewer.
func (s *stream) format(want watchRequest) (rendition.Format, error) {
	f := s.forms.Format()
	switch {
	case want.asIs || want.format == f:
		return f, nil
	case f == rendition.Raw:
		return 0, refuse.New(http.StatusNotAcceptable,
			"stream %q is not FLV, so it cannot be had as %s: ask for /live/%[1]s", s.name, want.format)
	case want.format == rendition.MP4:
		return rendition.MP4, s.checkMP4()
	}
	return want.format, nil
}

// checkMP4 refuses viewers of MP4 if there is nothing for them.
func (s *stream) checkMP4() error {
	if !s.forms.Facts().NoMP4() {
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
	v := &viewer{stream: s, remote: want.remote, since: now(), terms: want.terms}
	next := want.next
	if peer {
		v.node, v.lease = want.node, s.lease
		next = next || !s.forms.HasStart() // what there is came from an owner before
	} else {
		s.viewers++
	}
	v.rendition, v.start = s.forms.Join(f, next)
	return v, nil
}

// exit removes a viewer.
func (s *stream) exit(v *viewer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v.lease == nil {
		s.viewers--
		s.leftAt = now()
	}
	s.forms.Leave(v.rendition)
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

// end closes the stream, which has no publisher any more: viewers get the rest, the name is free, and later viewers
// wait for the next stream. hub.mu is held.
func (s *stream) end() {
	s.stopWaiting()
	delete(s.hub.streams, s.name)
	s.giveUp()
	if s.feed != nil {
		s.feed.Release()
	}
	if s.forms != nil {
		s.forms.Close()
	}
}
