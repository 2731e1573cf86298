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
	ends context.Context // ended by Close, which holds mu
	stop context.CancelCauseFunc

	counters counters
	forms    rendition.Config

	publishers sync.WaitGroup // counts publishers that are served, or not yet answered
	recording  sync.WaitGroup // counts streams that are being recorded
	admitted   *limit.Limiter // limits viewers, including viewers that wait

	pullIdle, cleanEndWait time.Duration // copies of the constants; tests may set them before use

	mu      lock.Mutex
	streams map[string]*stream // by name, from newStream to registrar.endStream
	waiting map[string][]*waiter
	hls     hlsSet
	served  map[*Viewer]struct{}
	records map[string]chan struct{} // by name; each is closed when a recording has ended
	// The stream names that the operator has closed to publishers. The value is the time until
	// which the name is closed. There are at most maxRefusedNames names.
	refused map[string]time.Time

	lastViewer uint64
	cut        bool // new viewers are disconnected at once
}

// A waiter is a viewer or an HLS request that waits for a stream.
type waiter struct {
	enter func(s *stream) error // Hub.mu is held during the call
	done  chan struct{}         // closed when enter has returned, or when err was set
	err   error

	unreached bool // set by Peers.pullFailed; guarded by Hub.mu
}

// NewHub returns a Hub without streams. The caller must call Drain to close the Hub.
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

// Config returns the configuration of h. Only SetLimits changes it.
func (h *Hub) Config() *Config { return &h.cfg }

// Closing returns a context that ends when Close is called.
func (h *Hub) Closing() context.Context { return h.ends }

// SetLimits replaces the limits MaxStreams, MaxViewers and MaxStreamViewers of Config. If there are
// already more streams or viewers than a new limit allows, they stay.
func (h *Hub) SetLimits(streams, viewers, streamViewers int) {
	h.admitted.SetLimit(viewers, tooManyViewers(viewers))
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cfg.MaxStreams, h.cfg.MaxStreamViewers = streams, streamViewers
}

// newStream adds a stream without a publisher. The caller must hold h.mu, and must call
// registrar.grant before it releases h.mu.
func (h *Hub) newStream(name string) *stream {
	s := &stream{name: name, started: time.Now(), log: h.log.With("stream", name),
		memory: millrace.DefaultPool().Account()}
	s.peers = make(map[*fanout.Viewer]string)
	s.leftAt = nanotime() - int64(h.pullIdle)
	s.frameAt.Store(nanotime())
	h.streams[name] = s
	return s
}

// announce sets the frames of the stream s, which makes s visible to viewers. It then wakes the
// viewers and HLS requests that wait for s. announce must be called before the first frame of s is
// published, so that the waiting viewers get this frame.
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

// find returns the named stream, or nil if viewers cannot find it. The caller must hold h.mu.
func (h *Hub) find(name string) *stream {
	if s := h.streams[name]; s != nil && s.forms != nil {
		return s
	}
	return nil
}

// unwatchedFor returns how long s has had no viewers. It returns 0 if s has viewers, or if viewers
// wait for s. The caller must hold h.mu.
func (h *Hub) unwatchedFor(s *stream) time.Duration {
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
