package hlslive

import (
	"context"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/sleep"
	"github.com/millrace-io/millrace/media/hls"
	"github.com/millrace-io/millrace/media/mp4"
	"github.com/millrace-io/millrace/server/internal/lock"
)

const (
	// rounding is how much longer than the target duration a segment may be, because durations are
	// rounded.
	rounding = 499 * time.Millisecond
	// firstIdle is how long the server keeps a window without a playlist if no requests arrive.
	firstIdle = 30 * time.Second
)

// A Window makes the HLS playlists, segments and parts of one stream, and answers the requests for
// them. Only one goroutine at a time may call Run. The other methods may be called from any
// goroutine.
type Window struct {
	shared *Shared
	source Source
	name   string // of the stream
	log    *slog.Logger
	first  SequenceStart
	asked  atomic.Int64 // when the latest request arrived; see nanotime

	mu lock.Mutex
	// owner is nil if there is no cluster, and after Disown.
	owner  Owner
	owned  uint64      // the last known epoch of owner
	window *hls.Window // nil before the first playlist can be made
	cfg    hls.Config
	movie  mp4.Movie
	rates  rates // rates of the fragments since the init segment changed
	ended  bool  // nothing more will be added: the stream has ended, or its tracks have changed
	err    error // error that all requests get, set by Fail or Close; nil before that
	saver  saver

	news        news
	full, delta *Playlist // current playlists, made on demand
	players     playerEstimate
}

// New returns a Window for the stream with the given name. The caller must call Run. The Window
// takes ownership of source. owner reports whether this node owns the stream; it is nil without a
// cluster. The Window uses no sequence numbers below those in first.
func New(shared *Shared, name string, log *slog.Logger, source Source, owner Owner,
	first SequenceStart) *Window {
	w := &Window{shared: shared, source: source, name: name, log: log, owner: owner, first: first}
	w.saver.store, w.saver.stream = shared.Store, name
	if owner == nil {
		w.owned = 1 // there is only one owner
	}
	w.news.changed = make(chan struct{})
	w.Touch()
	w.news.silence = time.AfterFunc(firstIdle, w.noteSilence)
	return w
}

// Touch records a request, which keeps the window from becoming idle; see IdleIn.
func (w *Window) Touch() { w.asked.Store(nanotime()) }

// Run adds fragments until the stream ends or its tracks change. It then ends the playlist, waits
// until players have had time to fetch the rest, and returns nil. Without a playlist, it returns an
// error instead. If ctx ends, Run returns at once, with an error if the playlist has not ended.
//
// The caller must call Close after Run.
func (w *Window) Run(ctx context.Context) error {
	err := w.fill(ctx)
	w.source.Release()
	if (err == io.EOF || err == errTracksChanged) && w.window != nil {
		w.update(func() {
			w.window.End()
			w.ended = true
			w.save(true)
		})
		sleep.For(ctx, w.length()) // in this time players get the end
		err = nil
	}
	return err
}

// Close releases the memory of w. It must not be called before Run has returned. From then on,
// requests get err, or the error that was passed to Fail before.
func (w *Window) Close(err error) {
	w.update(func() {
		if w.err == nil {
			w.err = err
		}
		if w.window != nil {
			if !w.ended {
				w.window.Flush()
				w.save(true)
			}
			w.window.Release()
		}
	})
	w.news.silence.Stop()
}

// Fail makes all requests return err from now on.
func (w *Window) Fail(err error) { w.update(func() { w.err = err }) }

// Disown lets w answer requests even if this node no longer owns the stream. Call Disown when the
// stream has ended properly: players must still get the last fragments if the node gives up the
// ownership early.
func (w *Window) Disown() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ownership()
	w.owner = nil
}

// mayBeDisowned reports whether another node may own the stream by now, for example because this
// process was suspended. Players must then try again later, because a response of this node could
// contradict a response of the other node. The caller must hold w.mu.
func (w *Window) mayBeDisowned() bool {
	return w.owner != nil && w.owner.Epoch() != 0 && !w.owner.Current() && !w.ended
}

// Ended reports whether nothing more will be added to w.
func (w *Window) Ended() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ended
}

// Media returns the name of the media playlist, or "" if there is no playlist. It also reports
// whether the playlist has ended.
func (w *Window) Media() (name string, ended bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.window == nil || w.err != nil {
		return "", w.ended
	}
	return mediaName(w.movie), w.ended
}

// Has reports whether w has the segments and parts with the given epoch in their names.
func (w *Window) Has(epoch uint64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.window != nil && w.cfg.Epoch == epoch
}

// NextStart returns the smallest numbers that the stream's next window may use.
func (w *Window) NextStart() SequenceStart {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.window == nil {
		return w.first
	}
	msn, _ := w.window.Next()
	return SequenceStart{w.cfg.Epoch + 1, msn + 1, w.window.Discontinuity() + 1}
}

// IdleIn returns the time until w is idle. w is idle if no request has arrived for a certain time:
// n times the length of the playlist, or firstIdle if there is no playlist yet.
func (w *Window) IdleIn(n int) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	keep := firstIdle
	if w.window != nil {
		keep = time.Duration(n) * w.length()
	}
	if w.news.waiting > 0 {
		return keep
	}
	return keep - time.Duration(nanotime()-w.asked.Load())
}

func (w *Window) length() time.Duration {
	return max(time.Duration(w.cfg.Segments)*w.cfg.Segment, 3*w.cfg.Target)
}

// Stats describes the current state of w.
func (w *Window) Stats() Stats {
	w.mu.Lock()
	defer w.mu.Unlock()
	st := Stats{Windows: 1, Waiting: w.news.waiting}
	if w.window != nil {
		st.Viewers, st.Bytes = w.players.size(nanotime(), w.cfg.Target), w.window.Bytes()
	}
	return st
}

// Shorten reduces the playlist to the minimum length that the standard requires, and limits the
// memory of the playlist to maxBytes. It returns the number of freed bytes. More memory may become
// free later, because players may still request segments that have left the playlist.
func (w *Window) Shorten(maxBytes int64) (freed int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.window == nil {
		return 0
	}
	before := w.window.Bytes()
	if w.window.Shorten(maxBytes) {
		w.wakeRequests()
	}
	return before - w.window.Bytes()
}

// fill adds the fragments of the stream to w. It returns io.EOF at the end of the stream, and
// errTracksChanged if the stream's tracks change.
func (w *Window) fill(ctx context.Context) error {
	p := probe{cfg: w.shared.Config, source: w.source}
	defer p.release()
	var clock mediaClock
	for {
		var c millrace.Chain
		f, err := w.source.Next(ctx, &c)
		if err == io.EOF && w.window == nil && len(p.list) > 0 { // the stream was short
			if err := w.open(ctx, &p, &clock); err != nil {
				return err
			}
		}
		if err != nil {
			return err
		}
		if w.window != nil {
			if f.NewInit && mediaName(*f.Movie) != mediaName(w.movie) {
				c.Release()
				return errTracksChanged
			}
			w.add(&clock, f, &c)
			continue
		}
		if p.add(f, &c); p.isEnough() {
			if err := w.open(ctx, &p, &clock); err != nil {
				return err
			}
		}
	}
}

// open chooses the durations of segments and parts, and makes the first playlist. The probe p holds
// the first fragments of the stream.
func (w *Window) open(ctx context.Context, p *probe, clock *mediaClock) error {
	cfg := p.config()
	cfg.Epoch = max(cfg.Epoch, w.first.Epoch)
	cfg.FirstMSN = max(cfg.FirstMSN, w.first.MSN)
	cfg.FirstDiscontinuity = w.first.Discontinuity // hls.js does not play if the number is large
	window, cfg, first, err := w.resume(ctx, cfg, mediaName(p.movie()),
		w.shared.Config.now().Add(-p.length()))
	if err != nil {
		return err
	}
	clock.begin(first)
	w.update(func() {
		w.window, w.cfg = window, cfg
		end := p.firstEnd()
		for i := range p.list {
			b := &p.list[i]
			if msn, _ := window.Next(); b.end > end && msn == cfg.FirstMSN && len(cfg.Past) == 0 {
				window.Flush()
			}
			w.put(clock, b.Fragment, &b.body, first.Add(b.end))
		}
		// Some players give up if the playlist has no complete segment.
		if msn, _ := window.Next(); msn == cfg.FirstMSN && len(cfg.Past) == 0 {
			window.Flush()
		}
		w.save(false)
	})
	p.list = nil
	w.log.Debug("HLS has a window", "target", cfg.Target, "part", cfg.Part)
	return nil
}

// unknownDiscontinuities limits the discontinuity sequence number of a playlist that follows one
// with an unknown number. It is small because hls.js does not play if the number is large.
const unknownDiscontinuities = 100

// resume makes the hls.Window for the media playlist file, from the stored state if there is one,
// and otherwise from cfg. It also returns the hls.Window's configuration, and the date of the first
// fragment.
//
// localDate is when the first fragment began, by the clock of this machine. The returned date may
// be later, because the dates in a playlist must not go back.
func (w *Window) resume(ctx context.Context, cfg hls.Config, file string, localDate time.Time) (
	window *hls.Window, _ hls.Config, date time.Time, err error,
) {
	state, err := w.saver.load(ctx)
	if err == nil && state != nil {
		next := cfg
		// Players cannot continue with a playlist of other tracks.
		state.Ended = state.Ended || state.Media != "" && state.Media != file
		date = state.continueIn(&next, w.first.MSN, localDate)
		if window, err = hls.NewWindow(next); err == nil {
			return window, next, date, nil
		}
	}
	if err != nil {
		w.log.Warn("HLS does not continue the playlist that players may have", "reason", err)
		if cfg.FirstDiscontinuity == 0 { // otherwise this node has made the earlier playlist
			// Its players see a discontinuity, unless they have the same number by chance.
			cfg.FirstDiscontinuity = 1 + cfg.FirstMSN%unknownDiscontinuities
		}
	}
	window, err = hls.NewWindow(cfg)
	return window, cfg, localDate, err
}

// save stores the new complete segments and the playlist's state. last means that no segment will
// follow. The caller must hold w.mu.
func (w *Window) save(last bool) {
	ownership := w.ownership()
	if w.saver.store == nil || ownership == 0 || !last && !w.saver.hasNews(w.window) {
		return
	}
	list := w.window.Listed()
	w.saver.save(w.window, w.cfg.Epoch, ownership, &playlistState{
		Target: w.cfg.Target, Part: w.cfg.Part, Segments: list[max(0, len(list)-maxStateSegments):],
		Next: w.window.Opening(), Open: !last, Ended: w.ended, Master: string(w.master()),
		Media: mediaName(w.movie),
	})
}

// ownership returns the epoch of this node's ownership of the stream. It is 0 if this node may not
// become the owner, because another node has published the stream at the same time. This node must
// then not replace the stored state of that node. The caller must hold w.mu.
func (w *Window) ownership() uint64 {
	if w.owner != nil {
		w.owned = w.owner.Epoch()
	}
	return w.owned
}

// add adds a fragment, and wakes the waiting requests. It takes ownership of body.
func (w *Window) add(clock *mediaClock, f Fragment, body *millrace.Chain) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.put(clock, f, body, w.shared.Config.now()) {
		w.save(false)
		w.wakeRequests()
	}
}

// put adds a fragment to the playlist, and takes ownership of body. arrival is the time when the
// fragment arrived. put reports whether the playlist has changed. The caller must hold w.mu.
func (w *Window) put(clock *mediaClock, f Fragment, body *millrace.Chain,
	arrival time.Time) (changed bool) {
	switch {
	case f.NewInit:
		var init millrace.Chain
		w.source.AppendInit(&init)
		changed = w.window.Init(&init)
		w.movie, w.rates = *f.Movie, rates{}
	case f.AfterLoss || clock.cut: // after a pause, players must skip the gap
		changed = w.window.Break()
	}
	duration, date := clock.add(f, f.NewInit || f.AfterLoss, w.cfg.Target+rounding, arrival)
	w.rates.add(f, duration, body.Len())
	return w.window.Add(hls.Fragment{Duration: duration, Key: f.Key, KeyNext: f.KeyNext,
		Time: date}, body) || changed
}

// update calls f while it holds w.mu, and wakes the waiting requests.
func (w *Window) update(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
	w.wakeRequests()
}

// wakeRequests drops the outdated playlists, and wakes the waiting requests. The caller must hold
// w.mu.
func (w *Window) wakeRequests() {
	w.full, w.delta = nil, nil
	w.news.tell(w.cfg.Target)
}

// noteSilence is called when no part or segment has been added for some time. It wakes the waiting
// requests, so that they can time out. After that, noteSilence is called again once per target
// duration, until a part or segment is added.
func (w *Window) noteSilence() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil && !w.ended {
		w.news.silent = true
		w.news.silence.Reset(max(w.cfg.Target, time.Second))
		w.news.wake()
	}
}

// master returns the text of the multivariant playlist. The caller must hold w.mu.
func (w *Window) master() []byte {
	v := hls.Variant{URI: mediaName(w.movie), Codecs: w.movie.Codecs, Width: w.movie.Width,
		Height: w.movie.Height}
	v.FrameRate = w.rates.frameRate()
	v.Bandwidth, v.AverageBandwidth = w.window.Bandwidth()
	v.Bandwidth = max(v.Bandwidth, w.rates.bandwidth()) * 5 / 4 // an upper limit for later segments
	return hls.AppendMultivariant(nil, v)
}
