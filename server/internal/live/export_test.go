package live

import (
	"context"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/media/flv"
	"github.com/millrace-io/millrace/server/internal/live/fanout"
	"github.com/millrace-io/millrace/server/internal/live/rendition"
)

// Access to the inside of the package for the tests, which are in another package because they use
// web and rtmp.

var (
	ErrFed        = errFed
	ErrOwnerEnded = errOwnerEnded
	ErrStale      = errStale
	ErrTakenOver  = errTakenOver
)

const (
	BodyBuffer      = bodyBuffer
	CleanEndWait    = cleanEndWait
	MaxRefusedNames = maxRefusedNames
	PullWait        = pullWait
)

type Stream = stream

func (i StreamInfo) IsWaiting() bool { return i.waiting }

func (s *stream) Forms() *rendition.Set { return s.forms }
func (s *stream) Returns() int64        { return s.returns.Load() }
func (s *stream) InUse() int64          { return s.memory.Stats().InUse }
func (s *stream) Started() time.Time    { return s.started }

// LookUp returns the stream that viewers see, or nil.
func (h *Hub) LookUp(name string) *Stream {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.find(name)
}

// AnyStream returns the stream with this name, which viewers may not see yet, or nil.
func (h *Hub) AnyStream(name string) *Stream {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.streams[name]
}

// Waiters returns the number of viewers that wait for a stream.
func (h *Hub) Waiters(name string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.waiting[name])
}

func (h *Hub) Info(s *Stream) StreamInfo                { return h.info(s) }
func (h *Hub) Owns(name string) (epoch uint64, ok bool) { return h.owns(name) }
func (h *Hub) Admitted() int                            { return h.admitted.Held() }
func (h *Hub) SetPullIdle(d time.Duration)              { h.pullIdle = d }
func (h *Hub) SetCleanEndWait(d time.Duration)          { h.cleanEndWait = d }

// AwaitStream waits for a stream, as viewers do.
func (h *Hub) AwaitStream(ctx context.Context, name string) error {
	return Admission{h}.awaitStream(ctx, name, func(*stream) error { return nil })
}

// Names returns the number of names that viewers wait for.
func (h *Hub) Names() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.waiting)
}

// Windows returns the number of streams with HLS, and the number of media playlists made so far.
func (h *Hub) Windows() (n int, rendered int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.hls.byName), h.hls.shared.Counters.Rendered.Load()
}

// GiveUp releases the lease of a stream, as at its end, and returns its HLS.
func (h *Hub) GiveUp(name string) *liveHLS {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.giveUp(h.streams[name])
	return h.hls.byName[name]
}

// Transports returns the transports of the viewers that are served, by address.
func (h *Hub) Transports() map[string]*fanout.Viewer {
	h.mu.Lock()
	defer h.mu.Unlock()
	list := make(map[string]*fanout.Viewer)
	for v := range h.served {
		list[v.remote] = v.transport
	}
	return list
}

// EndIdle, DropLaggards and CutLargest free memory.
func (h *Hub) EndIdle(excess int64) int64 { return HLS{h}.endIdle(excess) }
func (h *Hub) DropLaggards(excess int64, after time.Duration) int64 {
	return shedder{h}.dropLaggards(excess, nil, after)
}
func (h *Hub) CutLargest(excess int64) int64 { return shedder{h}.cutLargest(excess) }

// NewViewer adds a viewer to a stream at once.
func (h *Hub) NewViewer(s *Stream, want WatchRequest) (*Viewer, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return Admission{h}.newViewer(s, want)
}

func (v *Viewer) Start() *fanout.Start      { return &v.start }
func (v *Viewer) Transport() *fanout.Viewer { return v.transport }
func (v *Viewer) Exit()                     { v.exit() }

func (p *Publisher) Stream() *Stream { return p.s }
func (p *Publisher) Hub() *Hub       { return p.hub }
func (p *Publisher) Epoch() uint64   { return p.epoch }

// SetReader makes p read its tags from r. Close releases r. Next reads one tag.
func (p *Publisher) SetReader(r *millrace.Reader) *millrace.Reader {
	p.r = r
	return r
}
func (p *Publisher) Next(dec *flv.Decoder) error { return p.next(dec) }
func (p *Publisher) SetEpoch(epoch uint64)       { p.epoch = epoch }
