package live

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/media/hls"
	"github.com/millrace-io/millrace/server/internal/live/hlslive"
	"github.com/millrace-io/millrace/server/internal/live/rendition"
	"github.com/millrace-io/millrace/server/internal/refuse"
)

// HLS serves the streams of a Hub to HLS players.
type HLS struct{ hub *Hub }

// NewHLS returns the HLS server for the streams of h.
func NewHLS(h *Hub) HLS { return HLS{h} }

// idleLengths determines when the server stops making HLS for a stream: when no request has arrived
// for idleLengths times the length of the playlist.
const idleLengths = 3

// Master returns the multivariant playlist of a stream. If the stream has not begun, Master first
// waits for the stream, as [Admission.Admit] does. Master then waits until the tracks of the stream
// are known. It returns the same errors as [Admission.Admit].
func (l HLS) Master(ctx context.Context, name string) (*hlslive.Playlist, error) {
	w, err := l.find(ctx, name)
	if err != nil {
		return nil, err
	}
	return w.Master(ctx)
}

// Media returns a stream's media playlist that has the given file name; see [hlslive.IsMedia]. If
// wait is true, Media waits until the playlist has the segment or part that query asks for.
func (l HLS) Media(
	ctx context.Context, name, file string, query hls.Reload, wait bool,
) (list *hlslive.Playlist, err error) {
	w := l.findEnded(name, file)
	if w == nil {
		if w, err = l.find(ctx, name); err != nil {
			return nil, err
		}
	}
	return w.Playlist(ctx, file, query, wait)
}

// Object appends an init segment, a segment or a part of a stream to dst, without copying. The
// caller keeps ownership of dst. If o is the next part to be made, Object waits for it.
func (l HLS) Object(ctx context.Context, name string, o hls.Object, dst *millrace.Chain) error {
	w, elsewhere := l.findMaker(name, o)
	switch {
	case elsewhere, w == nil && l.hasMoved(ctx, name):
		return hlslive.ErrElsewhere
	case w == nil:
		return hlslive.Absent(name, o)
	}
	return w.Object(ctx, o, dst)
}

// findMaker returns the liveHLS that made or will make o. If no liveHLS of this node did, w is nil,
// and elsewhere reports whether another node makes the stream's HLS.
func (l HLS) findMaker(name string, o hls.Object) (w *liveHLS, elsewhere bool) {
	l.hub.mu.Lock()
	defer l.hub.mu.Unlock()
	latest := l.hub.hls.byName[name]
	for w := latest; w != nil; w = w.before { // at most two iterations
		if w.Has(o.Epoch) {
			latest.Touch()
			return w, false
		}
	}
	return nil, l.isElsewhere(name)
}

// findEnded returns the result of hlsSet.findEnded for the named stream and playlist file. If the
// result is not nil, findEnded also records a request, so that the liveHLS does not become idle.
func (l HLS) findEnded(name, file string) *liveHLS {
	l.hub.mu.Lock()
	defer l.hub.mu.Unlock()
	s := l.hub.find(name)
	if s == nil {
		return nil
	}
	w := l.hub.hls.findEnded(s, file)
	if w != nil {
		w.Touch()
	}
	return w
}

// find returns the liveHLS of the named stream, and starts one if necessary. If the stream has not
// begun, find first waits for the stream, as [Admission.Admit] does.
func (l HLS) find(ctx context.Context, name string) (w *liveHLS, err error) {
	if l.hasMoved(ctx, name) {
		return nil, hlslive.ErrElsewhere
	}
	l.hub.mu.Lock()
	if l.isElsewhere(name) {
		l.hub.mu.Unlock()
		return nil, hlslive.ErrElsewhere
	}
	w = l.hub.hls.byName[name]
	if w != nil && (!w.Ended() || l.hub.find(name) == nil) {
		w.Touch()
		l.hub.mu.Unlock()
		return w, nil
	}
	l.hub.mu.Unlock()
	return l.await(ctx, name)
}

// await waits until the named stream has begun, and returns its liveHLS. It starts a liveHLS if
// necessary.
func (l HLS) await(ctx context.Context, name string) (w *liveHLS, err error) {
	if err := l.hub.cfg.Memory.Admit(); err != nil {
		return nil, err
	}
	if err := l.hub.admitted.Acquire(); err != nil {
		return nil, err
	}
	defer l.hub.admitted.Release()
	err = NewAdmission(l.hub).awaitStream(ctx, name, func(s *stream) error {
		if w = l.hub.hls.byName[name]; w != nil && w.stream == s && !w.Ended() {
			w.Touch()
			return nil
		}
		if l.isElsewhere(name) {
			return hlslive.ErrElsewhere
		}
		if _, err := s.format(WatchRequest{Format: rendition.MP4}); err != nil {
			return err
		}
		w = l.start(s)
		return nil
	})
	return w, err
}

// isElsewhere reports whether another node makes the named stream's HLS. The caller must hold
// Hub.mu.
func (l HLS) isElsewhere(name string) bool {
	if s := l.hub.streams[name]; s != nil {
		return l.hub.cfg.Cluster != nil && s.lease == nil
	}
	return l.hub.cfg.Cluster != nil && l.hub.hls.byName[name] == nil
}

// hasMoved reports whether a stream that has ended at this node continues at another node. Players
// must then not get the end of the stream's earlier playlist, which this node may still have.
func (l HLS) hasMoved(ctx context.Context, name string) bool {
	if l.hub.cfg.Cluster == nil {
		return false
	}
	l.hub.mu.Lock()
	w := l.hub.hls.byName[name]
	ended := w != nil && w.Ended() && l.hub.streams[name] == nil
	l.hub.mu.Unlock()
	return ended && l.hub.cfg.Cluster.IsElsewhere(ctx, name)
}

// start adds a liveHLS for s, and runs the liveHLS in a goroutine. The caller must hold Hub.mu.
func (l HLS) start(s *stream) *liveHLS {
	w := l.hub.hls.addHLS(s)
	w.idle = time.AfterFunc(w.IdleIn(idleLengths), func() { l.checkIdle(w) })
	ctx, stop := context.WithCancel(l.hub.ends)
	w.stop = stop
	go l.run(ctx, w)
	return w
}

func (l HLS) run(ctx context.Context, w *liveHLS) {
	s := w.stream
	defer w.stop()
	s.log.Debug("HLS started")
	err := w.Run(ctx)
	w.idle.Stop()
	defer s.log.Debug("HLS ended", "reason", Explain(err))
	l.hub.mu.Lock()
	defer l.hub.mu.Unlock()
	l.hub.hls.forget(w)
	switch {
	case l.hub.ends.Err() != nil:
		w.Close(refuse.ErrShutdown)
	case err == rendition.ErrNotMade:
		w.Close(cmp.Or(s.checkMP4(), error(refuse.New(http.StatusNotAcceptable, "stream %q: %v",
			s.name, err))))
	default:
		w.Close(errAbsent(s.name))
	}
}

func (l HLS) checkIdle(w *liveHLS) {
	l.hub.mu.Lock()
	defer l.hub.mu.Unlock()
	if left := w.IdleIn(idleLengths); left > 0 {
		w.idle.Reset(left)
		return
	}
	l.hub.hls.end(w)
}

// Absent returns the error for a player whose stream could not be found in time. If ctx has ended,
// Absent returns the cause of ctx.
func (l HLS) Absent(ctx context.Context, name string) error {
	return cmp.Or(context.Cause(ctx), l.hub.cfg.absentError(name))
}
