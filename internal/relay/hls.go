package relay

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/frame/hls"
	"github.com/millrace-io/millrace/frame/mp4"
)

// HLSConfig is what can be chosen about HLS.
type HLSConfig struct {
	Part     time.Duration // about how long a part is
	Segment  time.Duration // a segment ends at the first key frame from here on
	Segments int           // how many a playlist lists, if they are as long as the rules ask
	MaxBytes int64         // what a stream's segments hold, in bytes
}

// The names of the playlists, behind the stream's name.
const (
	HLSMasterName = "index.m3u8"
	HLSMediaName  = "media.m3u8"
)

// hlsIdle is how many windows pass without a request before HLS is no longer made.
const hlsIdle = 3

// An hlsWindow is the HLS form of a stream. One goroutine adds the fragments of MP4 to its window, from the first
// request until none comes for a while, or until players have had the time to get the end of the stream. Requests wait
// for what it adds.
type hlsWindow struct {
	hub    *Hub
	stream *stream
	stop   context.CancelFunc
	asked  atomic.Int64 // when the latest request came; see now
	idle   *time.Timer  // calls checkIdle

	mu      sync.Mutex
	window  *hls.Window   // nil before the first playlist can be made
	cfg     hls.Config    // of the window
	news    chan struct{} // closed and replaced when there is something new
	err     error         // why there is no window, or none any more
	movie   mp4.Movie
	fps     float64      // of the pictures, at the start
	rate    int64        // bits per second, at the start
	full    *HLSPlaylist // what window says at present; nil until that is asked for
	delta   *HLSPlaylist
	ended   bool // the stream has
	waiting int  // requests
}

// An HLSPlaylist is a playlist as text, shared by all who ask for it: it is never changed.
type HLSPlaylist struct {
	Text   []byte
	Gzip   []byte        // the same
	Target time.Duration // the longest segment
}

// HLSMaster returns the multivariant playlist of the stream of that name. It waits for the stream as viewers do, and
// until it is known what is in it. Errors are as those of Watch.
func (h *Hub) HLSMaster(ctx context.Context, name string) (list *HLSPlaylist, err error) {
	w, err := h.hlsWindow(ctx, name)
	if err != nil {
		return nil, err
	}
	err = w.await(ctx, func() (bool, error) {
		if w.window == nil {
			return false, nil
		}
		v := hls.Variant{URI: HLSMediaName, Codecs: w.movie.Codecs, Width: w.movie.Width, Height: w.movie.Height, FrameRate: w.fps}
		if v.Bandwidth, v.AverageBandwidth = w.window.Bandwidth(); v.Bandwidth == 0 {
			v.Bandwidth = w.rate
		}
		list = w.newPlaylist(hls.AppendMultivariant(nil, v))
		return true, nil
	})
	return list, err
}

// HLSMedia returns the media playlist of the stream of that name, when it has what is asked for.
func (h *Hub) HLSMedia(
	ctx context.Context, name string, want hls.Reload, blocks bool,
) (list *HLSPlaylist, err error) {
	w, err := h.hlsWindow(ctx, name)
	if err != nil {
		return nil, err
	}
	err = w.await(ctx, func() (bool, error) {
		if w.window == nil {
			return false, nil
		}
		switch status := w.window.Status(want); {
		case !blocks:
		case status == hls.Wait:
			return false, nil
		case status == hls.TooFar:
			msn, part := w.window.Next()
			return false, refusal(http.StatusBadRequest, "segment %d is too far ahead: part %d of segment %d is next", want.MSN, part, msn)
		}
		list = w.playlist(want.Skip)
		return true, nil
	})
	return list, err
}

// HLSObject adds shares of an initialization segment, a segment or a part to dst, which stays the caller's. It waits for
// the part that is next.
func (h *Hub) HLSObject(ctx context.Context, name string, o hls.Object, dst *millrace.Chain) error {
	h.mu.Lock()
	w := h.hls[name]
	h.mu.Unlock()
	absent := refusal(http.StatusNotFound, "%s is not, or no longer, in the window of stream %q", o, name)
	if w == nil {
		return absent
	}
	w.asked.Store(now())
	return w.await(ctx, func() (bool, error) {
		switch {
		case w.window == nil:
			return false, absent
		case w.window.Append(dst, o):
			return true, nil
		case w.ended || !w.coming(o):
			return false, absent
		}
		return false, nil
	})
}

// coming reports whether o is the part that is next, or the first one of the segment behind it. w.mu is held.
func (w *hlsWindow) coming(o hls.Object) bool {
	msn, part := w.window.Next()
	return o.Kind == hls.KindPart && o.Epoch == w.cfg.Epoch &&
		(o.MSN == msn && o.Part == part || o.MSN == msn+1 && o.Part == 0)
}

// await calls done with w.mu held, at once and whenever there is something new, until it returns true or an error.
// A call that waits has a place of the viewers' limit.
func (w *hlsWindow) await(ctx context.Context, done func() (bool, error)) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for waits := false; ; {
		if w.err != nil {
			return w.err
		}
		if ok, err := done(); ok || err != nil {
			return err
		}
		if !waits {
			if err := w.hub.acquire(); err != nil {
				return err
			}
			waits = true
			w.waiting++
			defer func() {
				w.waiting--
				w.asked.Store(now())
				w.hub.admitted.Release()
			}()
		}
		news := w.news
		w.mu.Unlock()
		select {
		case <-news:
		case <-ctx.Done():
		}
		w.mu.Lock()
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// hlsWindow returns the HLS form of the stream of that name, and has it made if it is not. It waits for the stream as
// viewers do.
func (h *Hub) hlsWindow(ctx context.Context, name string) (w *hlsWindow, err error) {
	h.mu.Lock()
	w = h.hls[name]
	if w != nil && (!w.ended || h.find(name) == nil) {
		h.mu.Unlock()
		w.asked.Store(now())
		return w, nil
	}
	h.mu.Unlock()
	if err := h.acquire(); err != nil {
		return nil, err
	}
	defer h.admitted.Release()
	err = h.awaitStream(ctx, name, func(s *stream) error {
		if w = h.hls[name]; w != nil && w.stream == s {
			return nil
		}
		if _, err := s.format(watchRequest{format: formatMP4}); err != nil {
			return err
		}
		w = s.startHLS()
		return nil
	})
	return w, err
}

// startHLS has HLS made of s. Hub.mu is held.
func (s *stream) startHLS() *hlsWindow {
	h := s.hub
	ctx, stop := context.WithCancel(h.ends)
	w := &hlsWindow{hub: h, stream: s, stop: stop, news: make(chan struct{})}
	w.asked.Store(now())
	w.idle = time.AfterFunc(hlsFirstIdle, w.checkIdle)
	if old := h.hls[s.name]; old != nil {
		old.stop()
	}
	h.hls[s.name] = w
	go w.run(ctx)
	return w
}

// hlsFirstIdle is how long HLS is made without a request before its window is known.
const hlsFirstIdle = 30 * time.Second

// checkIdle ends w if there was no request for long enough.
func (w *hlsWindow) checkIdle() {
	w.mu.Lock()
	defer w.mu.Unlock()
	keep := hlsFirstIdle
	if w.window != nil {
		keep = hlsIdle * w.length()
	}
	left := keep - time.Duration(now()-w.asked.Load())
	if w.waiting > 0 {
		left = keep
	}
	if left <= 0 {
		w.stop()
		return
	}
	w.idle.Reset(left)
}

// run makes the window until nobody asks for it.
func (w *hlsWindow) run(ctx context.Context) {
	s := w.stream
	s.log.Debug("HLS started")
	in := fragmentReader{stream: s}
	err := w.make(ctx, &in)
	in.release()
	if err == io.EOF && w.window != nil {
		w.update(func() { w.window.End(); w.ended = true })
		err = w.linger(ctx)
	}
	w.idle.Stop()
	s.hub.mu.Lock()
	if s.hub.hls[s.name] == w {
		delete(s.hub.hls, s.name)
	}
	s.hub.mu.Unlock()
	w.update(func() {
		switch {
		case s.hub.ends.Err() != nil:
			w.err = errDraining
		case err == errNotMade:
			w.err = cmp.Or(s.checkMP4(), error(refusal(http.StatusNotAcceptable, "stream %q: %v", s.name, err)))
		default:
			w.err = errAbsent(s.name)
		}
		if w.window != nil {
			w.window.Release()
		}
	})
	s.log.Debug("HLS ended", "reason", explain(err))
}

// length returns about how long the window is.
func (w *hlsWindow) length() time.Duration {
	return max(time.Duration(w.cfg.Segments)*w.cfg.Segment, 3*w.cfg.Target)
}

// linger waits until players have had the time to get what is in the window.
func (w *hlsWindow) linger(ctx context.Context) error {
	timer := time.NewTimer(w.length())
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return nil
}

// make adds the fragments to the window. It returns io.EOF at the end of the stream.
func (w *hlsWindow) make(ctx context.Context, in *fragmentReader) error {
	var begin hlsBegin
	defer begin.release()
	var clock mediaClock
	for {
		var c millrace.Chain
		f, err := in.next(ctx, &c)
		if err == io.EOF && w.window == nil && len(begin.list) > 0 { // a short stream
			err = cmp.Or(w.open(in, &begin, &clock), err)
		}
		if err != nil {
			return err
		}
		if w.window != nil {
			clock.set(f)
			w.add(in, &clock, f, &c)
			continue
		}
		begin.add(f, &c)
		if begin.enough(w.stream, in.movie) {
			if err := w.open(in, &begin, &clock); err != nil {
				return err
			}
		}
	}
}

// open makes the window of what has come so far.
func (w *hlsWindow) open(in *fragmentReader, begin *hlsBegin, clock *mediaClock) error {
	cfg := begin.config(w.stream, in.movie)
	window, err := hls.NewWindow(cfg)
	if err != nil {
		return err
	}
	clock.set(begin.list[len(begin.list)-1].fragment)
	w.update(func() {
		w.window, w.cfg = window, cfg
		w.fps, w.rate = begin.rates()
	})
	for i := range begin.list {
		w.add(in, clock, begin.list[i].fragment, &begin.list[i].body)
	}
	begin.list = nil
	w.stream.log.Debug("HLS has a window", "target", cfg.Target, "part", cfg.Part)
	return nil
}

// add adds a fragment, and tells those who wait if there is something new for them. It takes ownership of body.
func (w *hlsWindow) add(in *fragmentReader, clock *mediaClock, f fragment, body *millrace.Chain) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case f.newInit:
		var init millrace.Chain
		in.init.Clone(&init)
		w.window.Init(&init)
		w.movie = in.movie
	case f.afterLoss:
		w.window.Break()
	}
	lasts := clock.lasts(f, f.newInit || f.afterLoss)
	if w.window.Add(hls.Fragment{Duration: lasts, Key: f.Key, KeyNext: f.keyNext, Time: clock.zero.Add(f.Start)}, body) {
		w.tell()
	}
}

// update changes w by f, and tells those who wait.
func (w *hlsWindow) update(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
	w.tell()
}

// tell wakes those who wait. w.mu is held.
func (w *hlsWindow) tell() {
	w.full, w.delta = nil, nil
	close(w.news)
	w.news = make(chan struct{})
}

// playlist returns the media playlist, which is made once. w.mu is held.
func (w *hlsWindow) playlist(skip bool) *HLSPlaylist {
	list := &w.full
	if skip {
		list = &w.delta
	}
	if *list == nil {
		w.hub.counters.hlsRendered.Add(1)
		*list = w.newPlaylist(w.window.AppendPlaylist(nil, skip))
	}
	return *list
}

// zippers are expensive to make: each has about a megabyte.
var zippers = sync.Pool{New: func() any { return gzip.NewWriter(io.Discard) }}

// newPlaylist returns the playlist with a text. w.mu is held.
func (w *hlsWindow) newPlaylist(text []byte) *HLSPlaylist {
	var b bytes.Buffer
	z := zippers.Get().(*gzip.Writer)
	defer zippers.Put(z)
	z.Reset(&b)
	_, _ = z.Write(text) // a Buffer takes all
	_ = z.Close()
	return &HLSPlaylist{Text: text, Gzip: b.Bytes(), Target: w.cfg.Target}
}

// An hlsBegin has the first fragments of a window, of which its times are chosen: they may not change later.
type hlsBegin struct {
	list  []hlsBegun
	bytes int64
}

type hlsBegun struct {
	fragment
	body millrace.Chain
}

func (b *hlsBegin) release() {
	for i := range b.list {
		b.list[i].body.Release()
	}
}

// add takes ownership of body.
func (b *hlsBegin) add(f fragment, body *millrace.Chain) {
	if f.newInit && len(b.list) > 0 || f.afterLoss { // of what came before, nothing was shown
		b.release()
		*b = hlsBegin{}
		f.newInit, f.afterLoss = true, false
	}
	b.bytes += int64(body.Len())
	b.list = append(b.list, hlsBegun{fragment: f, body: *body})
	*body = millrace.Chain{}
}

// length returns how long the fragments are.
func (b *hlsBegin) length() time.Duration { return b.list[len(b.list)-1].End - b.list[0].Start }

const (
	// hlsFewest is how many fragments tell how long fragments are.
	hlsFewest = 6
	// hlsLongest is the longest target duration. A longer group of pictures is cut.
	hlsLongest = 16 * time.Second
)

// enough reports whether the times of a window can be chosen: the distance of key frames is known, or it is known to be
// longer than two segments.
func (b *hlsBegin) enough(s *stream, m mp4.Movie) bool {
	cfg := &s.hub.cfg.HLS
	return len(b.list) >= hlsFewest && (!m.Video || s.keyInterval.Load() > 0 || b.length() >= 2*cfg.Segment) ||
		b.bytes > cfg.MaxBytes/4
}

// config returns what the window is made with.
//
// The target duration fits a whole number of groups of pictures, and a long one if their length is not known. A part is
// a whole number of pictures; if these are irregular, it is as long as the rules need to allow for the longest of them.
func (b *hlsBegin) config(s *stream, m mp4.Movie) hls.Config {
	cfg := &s.hub.cfg.HLS
	group := time.Duration(s.keyInterval.Load()) * time.Millisecond
	segment := cfg.Segment
	switch {
	case !m.Video:
	case group > 0:
		segment = (segment + group - 1) / group * group
	default:
		segment = max(5*segment, b.length())
	}
	target := (segment + 900*time.Millisecond).Truncate(time.Second) // 2.1 s is 2 s
	target = min(max(target, time.Second), hlsLongest)

	most, least := time.Duration(0), time.Hour
	for i := range b.list {
		if d := b.list[i].End - b.list[i].Start; d > 0 {
			most, least = max(most, d), min(least, d)
		}
	}
	part := cfg.Part
	if most == 0 { // nothing is known
		most = part
	}
	if most-least <= 5*time.Millisecond { // times are in whole milliseconds
		part = max(1, (part+most/2)/most) * most
	} else {
		part = max(part, most*100/15) // a part may be 15% shorter
	}
	part = min((part + time.Millisecond - 1).Truncate(time.Millisecond), target)
	at := time.Now()
	return hls.Config{
		Epoch: uint64(at.UnixMilli()), FirstMSN: uint64(at.Unix() / int64(max(1, cfg.Segment/time.Second))),
		Target: target, Part: part, Segment: cfg.Segment, Segments: cfg.Segments, MaxBytes: cfg.MaxBytes,
	}
}

// rates returns the pictures and the bits per second.
func (b *hlsBegin) rates() (pictures float64, bits int64) {
	for i := range b.list {
		pictures += float64(b.list[i].Pictures)
	}
	seconds := max(b.length().Seconds(), 1e-3)
	return pictures / seconds, int64(float64(8*b.bytes) / seconds)
}
