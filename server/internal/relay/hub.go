package relay

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/server/internal/limit"
	"github.com/millrace-io/millrace/server/internal/lock"
	"github.com/millrace-io/millrace/server/internal/refuse"
	"github.com/millrace-io/millrace/server/internal/relay/fanout"
	"github.com/millrace-io/millrace/server/internal/relay/rendition"
)

// A Hub has the streams of a server.
//
// Locks are taken in this order: Hub.mu, stream.mu, and then that of an hlslive.Window, a broadcast.Ring or a
// limit.Limiter. A goroutine that holds Hub.mu or stream.mu does not log. Of package fanout it takes the lock of a Conn
// alone (by Viewer.End): a loop there holds its lock while it calls methods of viewer, which take stream.mu.
type Hub struct {
	cfg  Config // MaxStreams and MaxStreamViewers under mu; the rest does not change
	log  *slog.Logger
	ends context.Context // ends with Close, under mu
	stop context.CancelCauseFunc

	counters counters
	forms    rendition.Config

	clients *millrace.Pool // an account of the blocks of what RTMP clients send that do not publish

	publishers sync.WaitGroup // publishers that are served, or answered
	recording  sync.WaitGroup // streams that are recorded
	admitted   *limit.Limiter // viewers, including those that wait for a stream

	pullIdle, cleanEndWait time.Duration // see the constants; set before h is used

	mu      lock.Mutex
	streams map[string]*stream // by name, from newStream to end
	waiting map[string][]*waiter
	hls     hlsSet
	served  map[*viewer]struct{}
	records map[string]chan struct{} // by name: closed when the recording of a stream has ended
	refused map[string]time.Time     // names whose publishers the operator refuses until then; at most maxRefusedNames

	lastViewer uint64 // the number of the viewer that came last
	cut        bool   // the time to drain was over: every viewer is ended
}

// New returns a Hub without streams. Drain ends it.
func New(cfg Config) *Hub {
	cfg.Log = lock.Logger(cfg.Log)
	h := &Hub{
		cfg: cfg, log: cfg.Log, clients: millrace.DefaultPool().Account(),
		admitted: limit.New(cfg.MaxViewers, tooManyViewers(cfg.MaxViewers), refuse.ErrShutdown),
		streams:  make(map[string]*stream),
		waiting:  make(map[string][]*waiter),
		served:   make(map[*viewer]struct{}),

		records: make(map[string]chan struct{}),
		refused: make(map[string]time.Time),

		pullIdle: pullIdle, cleanEndWait: cleanEndWait,
	}
	h.forms = cfg.forms(&h.counters.forms)
	h.hls.init(&h.cfg, h.admitted)
	h.ends, h.stop = context.WithCancelCause(context.Background())
	return h
}

// SetLimits replaces the limits of Config. Streams and viewers above lower ones stay.
func (h *Hub) SetLimits(streams, viewers, streamViewers int) {
	h.admitted.SetLimit(viewers, tooManyViewers(viewers))
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cfg.MaxStreams, h.cfg.MaxStreamViewers = streams, streamViewers
}

// announce lets viewers find s, and gives it the viewers that wait for it. They enter before its first frame.
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

// find returns the stream that viewers see under name, or nil. h.mu is held.
func (h *Hub) find(name string) *stream {
	if s := h.streams[name]; s != nil && s.forms != nil {
		return s
	}
	return nil
}

// A waiter is a viewer that waits for a stream.
type waiter struct {
	enter func(s *stream) error // called with Hub.mu held
	done  chan struct{}         // closed when enter has returned, or err was set
	err   error

	unreached bool // the last pull has not reached the owner; under Hub.mu
}

// enter returns a viewer of the stream that is asked for, and waits for the stream until ctx ends.
func (h *Hub) enter(ctx context.Context, want watchRequest) (v *viewer, err error) {
	err = h.awaitStream(ctx, want.name, func(s *stream) (err error) {
		v, err = s.enter(want)
		return err
	})
	return v, err
}

// awaitStream calls enter with the stream of that name, with mu held, and waits for the stream until ctx ends. It returns what
// enter returns.
func (h *Hub) awaitStream(ctx context.Context, name string, enter func(s *stream) error) error {
	wait := h.cfg.ViewerWait
	if h.cfg.Cluster != nil {
		wait = max(wait, pullWait)
	}
	h.mu.Lock()
	switch s := h.find(name); {
	case s != nil:
		err := enter(s)
		waits := s.wait != nil
		h.mu.Unlock()
		if waits {
			h.want(name)
		}
		return err
	case h.ends.Err() != nil:
		h.mu.Unlock()
		return refuse.ErrShutdown
	case wait == 0:
		h.mu.Unlock()
		return errAbsent(name)
	}
	w := &waiter{enter: enter, done: make(chan struct{})}
	h.waiting[name] = append(h.waiting[name], w)
	h.mu.Unlock()
	h.want(name)

	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	select {
	case <-w.done:
		return w.err
	case <-ctx.Done():
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	select {
	case <-w.done: // at the same moment
		return w.err
	default:
	}
	rest := slices.DeleteFunc(h.waiting[name], func(other *waiter) bool { return other == w })
	if h.waiting[name] = rest; len(rest) == 0 {
		delete(h.waiting, name)
	}
	switch {
	case h.cfg.Cluster != nil && len(h.streams) >= h.cfg.MaxStreams: // it may be at another node
		return h.cfg.tooManyStreams()
	case w.unreached:
		return refuse.New(http.StatusServiceUnavailable,
			"the node that has the stream %q does not answer", name).After(retryAfter)
	}
	return h.cfg.absent(name)
}

// serve notes that v is served from now on.
func (h *Hub) serve(v *viewer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lastViewer++
	v.id = h.lastViewer
	h.served[v] = struct{}{}
	if h.cut {
		v.transport.End(fanout.Drained)
	}
	if s := v.stream; v.lease != nil {
		s.peers[v] = struct{}{}
		if v.lease != s.lease {
			v.transport.End(fanout.Moved)
		}
	}
}

// leave notes that v has ended.
func (h *Hub) leave(v *viewer) {
	h.mu.Lock()
	delete(h.served, v)
	delete(v.stream.peers, v)
	h.mu.Unlock()
	h.admitted.Release()
}

// Close refuses new publishers and viewers from now on, and ends all publishers and all streams that wait for one.
// Viewers stay until they have everything.
func (h *Hub) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stop(refuse.ErrShutdown)
	for _, s := range h.streams {
		if s.wait != nil {
			s.end()
		}
	}
	h.admitted.Close()
	for _, list := range h.waiting {
		for _, w := range list {
			w.err = refuse.ErrShutdown
			close(w.done)
		}
	}
	clear(h.waiting)
}

// reconnectWait is how long a publisher may take to leave that was asked to connect again: it goes on up to its next key
// frame, and encoders are told to send one every two seconds.
const reconnectWait = 2 * time.Second

// AskToReconnect asks the publishers that can to connect again, to a server that goes on, and waits until they have left:
// for reconnectWait, and no longer than ctx.
func (h *Hub) AskToReconnect(ctx context.Context) {
	var asked []*Publisher
	h.mu.Lock()
	for _, s := range h.streams {
		if p := s.publisher; s.wait == nil && p.reconnects.Load() {
			p.leaves.Store(true)
			asked = append(asked, p)
		}
	}
	h.mu.Unlock()
	if len(asked) == 0 {
		return
	}
	h.log.Info("publishers are asked to connect again", "publishers", len(asked))
	ctx, cancel := context.WithTimeout(ctx, reconnectWait)
	defer cancel()
	for _, p := range asked {
		select {
		case <-p.ctx.Done():
		case <-ctx.Done():
			return
		}
	}
}

// Drain closes h, and waits until all publishers have been answered and all viewers have got what is kept for them.
// Viewers that are still there when ctx ends are disconnected.
func (h *Hub) Drain(ctx context.Context) {
	h.Close()
	empty := h.admitted.Close()
	select {
	case <-empty:
	case <-ctx.Done():
		h.log.Warn("time is up, viewers are disconnected", "viewers", h.Viewers())
		h.cutViewers()
		limit.Await(h.log, "viewers", empty)
	}
	answered := make(chan struct{})
	go func() {
		h.AwaitRecorders()
		close(answered)
	}()
	limit.Await(h.log, "publishers", answered)
}

// cutViewers ends all viewers that are served, and those that are about to be.
func (h *Hub) cutViewers() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cut = true
	for v := range h.served {
		v.transport.End(fanout.Drained)
	}
}

// start is what now counts from.
var start = time.Now()

// now returns the monotonic time in nanoseconds.
func now() int64 { return int64(time.Since(start)) }

// AwaitRecorders waits until no publisher is there any more and what they sent has been given to the recorders, all of
// which are closed. It is for the time after Close.
func (h *Hub) AwaitRecorders() {
	h.publishers.Wait()
	h.recording.Wait()
}
