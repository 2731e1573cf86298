package live

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/server/internal/conn/limit"
	"github.com/millrace-io/millrace/server/internal/live/fanout"
	"github.com/millrace-io/millrace/server/internal/live/rendition"
	"github.com/millrace-io/millrace/server/internal/lock"
	"github.com/millrace-io/millrace/server/internal/refuse"
)

// A Hub holds the streams of a server.
//
// Locks are taken in this order: Hub.mu, stream.mu, rendition.Set.mu, and then the lock of an
// hlslive.Window, a broadcast.Ring or a limit.Limiter.
//
// A goroutine that holds Hub.mu, stream.mu or rendition.Set.mu must follow these rules:
//   - It does not log.
//   - It may call fanout.Viewer.End, which takes the lock of a fanout.Conn.
//   - It takes no other lock of package fanout. A fanout loop holds its own lock while it calls
//     methods of a viewer, and these methods take stream.mu and rendition.Set.mu.
type Hub struct {
	cfg  Config // MaxStreams and MaxStreamViewers are guarded by mu; the rest does not change
	log  *slog.Logger
	ends context.Context // ended by Close, with mu held
	stop context.CancelCauseFunc

	counters counters
	forms    rendition.Config

	publishers sync.WaitGroup // counts publishers that are served, or not yet answered
	recording  sync.WaitGroup // counts streams that are being recorded
	admitted   *limit.Limiter // limits viewers, including waiting ones

	pullIdle, cleanEndWait time.Duration // the constants; tests may replace them before they use h

	mu      lock.Mutex
	streams map[string]*stream // by name, from newStream to registrar.end
	waiting map[string][]*waiter
	hls     hlsSet
	served  map[*Viewer]struct{}
	records map[string]chan struct{} // by name; closed when a stream's recording has ended
	// Names that the operator refuses to publishers, with the time at which the refusal ends. There
	// are at most maxRefusedNames.
	refused map[string]time.Time

	lastViewer uint64 // the number of the newest viewer
	cut        bool   // cutViewers was called, so every new viewer ends at once
}

// A waiter is a viewer or an HLS request that waits for a stream.
type waiter struct {
	enter func(s *stream) error // called with Hub.mu held
	done  chan struct{}         // closed when enter has returned, or err was set
	err   error

	unreached bool // set by Peers.pullFailed; guarded by Hub.mu
}

// NewHub returns a Hub without streams. Drain ends it.
func NewHub(cfg Config) *Hub {
	cfg.Log = lock.Logger(cfg.Log)
	h := &Hub{
		cfg: cfg, log: cfg.Log,
		admitted: limit.New(cfg.MaxViewers, tooManyViewers(cfg.MaxViewers), refuse.ErrShutdown),
		streams:  make(map[string]*stream),
		waiting:  make(map[string][]*waiter),
		served:   make(map[*Viewer]struct{}),

		records: make(map[string]chan struct{}),
		refused: make(map[string]time.Time),

		pullIdle: pullIdle, cleanEndWait: cleanEndWait,
	}
	h.forms = cfg.forms(&h.counters.forms)
	h.hls.init(&h.cfg, h.admitted)
	h.ends, h.stop = context.WithCancelCause(context.Background())
	return h
}

// Config returns the configuration of h. Only the limits that SetLimits replaces can change.
func (h *Hub) Config() *Config { return &h.cfg }

// Closing returns a context that ends when Close is called.
func (h *Hub) Closing() context.Context { return h.ends }

// SetLimits replaces the limits of Config. Existing streams and viewers stay, even if there are
// more than a new limit allows.
func (h *Hub) SetLimits(streams, viewers, streamViewers int) {
	h.admitted.SetLimit(viewers, tooManyViewers(viewers))
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cfg.MaxStreams, h.cfg.MaxStreamViewers = streams, streamViewers
}

// newStream adds a stream without a publisher. The caller must call registrar.grant before it
// releases mu. mu is held.
func (h *Hub) newStream(name string) *stream {
	s := &stream{name: name, started: time.Now(), log: h.log.With("stream", name),
		memory: millrace.DefaultPool().Account()}
	s.peers = make(map[*fanout.Viewer]string)
	s.leftAt = nanotime() - int64(h.pullIdle)
	s.frameAt.Store(nanotime())
	h.streams[name] = s
	return s
}

// announce makes the stream s visible to viewers, and wakes the viewers and HLS requests that wait
// for s. It must be called before the first frame of s is published, so that the waiting viewers
// get the frame.
func (h *Hub) announce(s *stream, forms *rendition.Set) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s.forms = forms
	for _, w := range h.waiting[s.name] {
		w.err = w.enter(s)
		close(w.done)
	}
	delete(h.waiting, s.name)
}

// find returns the stream that is visible to viewers under name, or nil. mu is held.
func (h *Hub) find(name string) *stream {
	if s := h.streams[name]; s != nil && s.forms != nil {
		return s
	}
	return nil
}

// unwatched returns how long s has had no viewers. It returns 0 if s has viewers or viewers wait
// for it. mu is held.
func (h *Hub) unwatched(s *stream) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.viewers+len(h.waiting[s.name]) > 0 {
		return 0
	}
	return time.Duration(nanotime() - s.leftAt)
}

func (h *Hub) leave(v *Viewer) {
	h.mu.Lock()
	delete(h.served, v)
	delete(v.stream.peers, v.transport)
	h.mu.Unlock()
	h.admitted.Release()
}
