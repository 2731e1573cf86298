package relay

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/frame/hls"
	"github.com/millrace-io/millrace/frame/mp4"
	"github.com/millrace-io/millrace/internal/lock"
	"github.com/millrace-io/millrace/internal/refuse"
)

// HLSConfig is what can be chosen about HLS.
type HLSConfig struct {
	Part     time.Duration // about how long a part is
	Segment  time.Duration // a segment ends at the first key frame from here on
	Segments int           // how many a playlist lists, if they are as long as the rules ask
	MaxBytes int64         // what a stream's segments hold, in bytes
}

// The names of the playlists, after the stream's name. A playlist never changes the tracks that it has, because players
// cannot follow: it ends, and the multivariant playlist names another one.
const (
	HLSMasterName = "index.m3u8"
	HLSMediaName  = "media.m3u8" // video and audio, or what there is
	hlsVideoName  = "video.m3u8" // video alone
	hlsAudioName  = "audio.m3u8" // audio alone
)

// IsHLSMedia reports whether an object of that name is a media playlist.
func IsHLSMedia(object string) bool {
	return object == HLSMediaName || object == hlsVideoName || object == hlsAudioName
}

// mediaName returns the name of the playlist of a movie.
func mediaName(m mp4.Movie) string {
	switch {
	case !m.Audio:
		return hlsVideoName
	case !m.Video:
		return hlsAudioName
	}
	return HLSMediaName
}

// errTracksChanged ends a window when the stream has other tracks.
var errTracksChanged = errors.New("the tracks of the stream changed")

// hlsSilence is how many target durations requests wait for something new (RFC 8216bis, 6.2.5.2).
const hlsSilence = 3

// hlsRounding is how much longer than the target duration a segment may be.
const hlsRounding = 499 * time.Millisecond

// hlsIdle is how many windows pass without a request before HLS is no longer made.
const hlsIdle = 3

// An hlsWindow is the HLS form of a stream. One goroutine adds the fragments of MP4 to its window, from the first
// request until none comes for a while, or until players have had the time to get the end of the stream. Requests wait
// for what it adds.
type hlsWindow struct {
	hub    *Hub
	stream *stream
	stop   context.CancelFunc
	first  hlsNumbers
	asked  atomic.Int64 // when the latest request came; see now. It is found under Hub.mu, and not ended then
	idle   *time.Timer  // calls checkIdle
	before *hlsWindow   // of the same stream with other tracks, which has ended; nil if there is none. Under Hub.mu

	mu      lock.Mutex
	lease   Lease         // nil if the server is alone, and when the stream has ended while its lease was current
	window  *hls.Window   // nil before the first playlist can be made
	cfg     hls.Config    // of the window
	news    chan struct{} // closed and replaced when there is something new
	err     error         // why there is no window, or none any more
	movie   mp4.Movie
	made    hlsRates     // of the fragments since the init segment changed
	full    *HLSPlaylist // what window says at present; nil until that is asked for
	delta   *HLSPlaylist
	ended   bool // nothing follows: the stream has ended, or has other tracks
	waiting int  // requests

	silence *time.Timer // calls noteSilence
	silent  bool        // nothing new has come for hlsSilence target durations

	saved      uint64 // the store has the segments before this one
	savedParts int    // and knows of so many parts of it
	savedInits uint64 // and the initialization segments before this one

	audience audience
}

// An HLSPlaylist is a playlist as text, shared by all who ask for it: it is never changed.
type HLSPlaylist struct {
	Text   []byte
	Gzip   []byte        // the same
	Target time.Duration // the longest segment
	Late   bool          // it has not got what was asked for: nothing new has come for a while
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
		list = newPlaylist(w.master(), w.cfg.Target)
		return true, nil
	})
	return list, err
}

// master returns the text of the multivariant playlist. w.mu is held.
func (w *hlsWindow) master() []byte {
	v := hls.Variant{URI: mediaName(w.movie), Codecs: w.movie.Codecs, Width: w.movie.Width, Height: w.movie.Height}
	v.FrameRate = w.made.pictures()
	v.Bandwidth, v.AverageBandwidth = w.window.Bandwidth()
	v.Bandwidth = max(v.Bandwidth, w.made.bits()) * 5 / 4 // no later segment should have more
	return hls.AppendMultivariant(nil, v)
}

// HLSMedia returns a media playlist of the stream of that name, when it has what is asked for. object is the playlist's
// name; see [IsHLSMedia].
func (h *Hub) HLSMedia(
	ctx context.Context, name, object string, want hls.Reload, blocks bool,
) (list *HLSPlaylist, err error) {
	w := h.endedHLS(name, object)
	if w == nil {
		if w, err = h.hlsWindow(ctx, name); err != nil {
			return nil, err
		}
	}
	asked, late := now(), false
	err = w.await(ctx, func() (bool, error) {
		if w.window == nil {
			return false, nil
		}
		if has := mediaName(w.movie); object != has && object != HLSMediaName {
			return false, refuse.New(http.StatusNotFound, "stream %q has other tracks than %s now: ask for %s", name, object, HLSMasterName)
		}
		switch status := w.window.Status(want); {
		case !blocks:
		case status == hls.Wait:
			if late = w.gaveUp(asked); !late {
				return false, nil
			}
		case status == hls.TooFar:
			msn, part := w.window.Next()
			return false, refuse.New(http.StatusBadRequest, "segment %d is too far ahead: part %d of segment %d is next", want.MSN, part, msn)
		}
		lasts := w.cfg.Target
		if blocks {
			lasts = w.cfg.Part
		}
		w.audience.add(now(), w.cfg.Target, lasts)
		list = w.playlist(want.Skip)
		if late {
			list = &HLSPlaylist{Text: list.Text, Gzip: list.Gzip, Target: list.Target, Late: true}
		}
		h.counters.hlsPlaylists.Add(1)
		return true, nil
	})
	return list, err
}

// endedHLS returns the window that has ended because the stream has other tracks, if the players of a playlist are to see
// that end. Otherwise it returns nil.
func (h *Hub) endedHLS(name, object string) *hlsWindow {
	h.mu.Lock()
	defer h.mu.Unlock()
	w := h.hls[name]
	if w == nil || w.stream != h.find(name) {
		return nil
	}
	if media, ended := w.media(); media == object && !ended {
		return nil
	}
	for ; w != nil; w = w.before { // at most two
		if media, ended := w.media(); ended && (media == object || media != "" && object == HLSMediaName) {
			w.asked.Store(now())
			return w
		}
	}
	return nil
}

// media returns the name of the playlist of w, "" if there is none, and whether nothing follows in it.
func (w *hlsWindow) media() (name string, ended bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.window == nil || w.err != nil {
		return "", w.ended
	}
	return mediaName(w.movie), w.ended
}

// HLSObject adds shares of an initialization segment, a segment or a part to dst, which stays the caller's. It waits for
// the part that is next.
func (h *Hub) HLSObject(ctx context.Context, name string, o hls.Object, dst *millrace.Chain) error {
	h.mu.Lock()
	w := h.hls[name]
	if w != nil {
		w.asked.Store(now())
		if w.before != nil && w.before.isOf(o.Epoch) {
			w = w.before
		}
	}
	elsewhere := w == nil && h.elsewhere(name)
	h.mu.Unlock()
	if elsewhere {
		return ErrElsewhere
	}
	absent := func() error {
		return refuse.New(http.StatusNotFound, "%s is not, or no longer, in the window of stream %q", o, name)
	}
	if w == nil {
		return absent()
	}
	asked := now()
	return w.await(ctx, func() (bool, error) {
		switch {
		case w.window == nil:
			return false, absent()
		case w.window.Append(dst, o):
			h.counters.hlsObjects.Add(1)
			h.counters.hlsBytes.Add(int64(dst.Len()))
			return true, nil
		case w.ended || !w.coming(o):
			return false, absent()
		case w.gaveUp(asked):
			return false, refuse.New(http.StatusServiceUnavailable,
				"%s has not come: stream %q waits for its publisher", o, name).After(time.Second)
		}
		return false, nil
	})
}

// isOf reports whether w has the objects of an epoch.
func (w *hlsWindow) isOf(epoch uint64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.window != nil && w.cfg.Epoch == epoch
}

// coming reports whether o is the part that is next, or the first one of the segment behind it. w.mu is held.
func (w *hlsWindow) coming(o hls.Object) bool {
	msn, part := w.window.Next()
	return o.Kind == hls.KindPart && o.Epoch == w.cfg.Epoch &&
		(o.MSN == msn && o.Part == part || o.MSN == msn+1 && o.Part == 0)
}

// fenced reports whether this node may not own the stream any more, because it was stopped for a while. Until that is
// known, players get nothing that contradicts what another node tells them, and have to ask again. w.mu is held.
func (w *hlsWindow) fenced() bool {
	return w.lease != nil && w.lease.Epoch() != 0 && !w.lease.Current() && !w.ended
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
		if w.fenced() {
			return ErrElsewhere
		}
		if ok, err := done(); ok || err != nil {
			return err
		}
		if !waits {
			if err := w.hub.admitted.Acquire(); err != nil {
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
	if h.elsewhere(name) {
		h.mu.Unlock()
		return nil, ErrElsewhere
	}
	w = h.hls[name]
	if w != nil && (!w.hasEnded() || h.find(name) == nil) {
		w.asked.Store(now())
		h.mu.Unlock()
		return w, nil
	}
	h.mu.Unlock()
	if err := h.cfg.Memory.Admit(); err != nil {
		return nil, err
	}
	if err := h.admitted.Acquire(); err != nil {
		return nil, err
	}
	defer h.admitted.Release()
	err = h.awaitStream(ctx, name, func(s *stream) error {
		if w = h.hls[name]; w != nil && w.stream == s && !w.hasEnded() {
			w.asked.Store(now())
			return nil
		}
		if h.elsewhere(name) {
			return ErrElsewhere
		}
		if _, err := s.format(watchRequest{format: formatMP4}); err != nil {
			return err
		}
		w = s.startHLS()
		return nil
	})
	return w, err
}

// elsewhere reports whether another node has the HLS of that name, if any has. h.mu is held.
func (h *Hub) elsewhere(name string) bool {
	if s := h.streams[name]; s != nil {
		return h.cfg.Cluster != nil && s.lease == nil
	}
	return h.cfg.Cluster != nil && h.hls[name] == nil
}

// startHLS has HLS made of s. Hub.mu is held.
func (s *stream) startHLS() *hlsWindow {
	h := s.hub
	ctx, stop := context.WithCancel(h.ends)
	w := &hlsWindow{hub: h, stream: s, lease: s.lease, stop: stop, news: make(chan struct{})}
	w.asked.Store(now())
	w.first = s.hls.after(h.hlsNumbers[s.name])
	delete(h.hlsNumbers, s.name)
	w.idle = time.AfterFunc(hlsFirstIdle, w.checkIdle)
	w.silence = time.AfterFunc(hlsFirstIdle, w.noteSilence)
	if old := h.hls[s.name]; old != nil { // it has ended
		old.mu.Lock()
		w.first = old.next()
		old.mu.Unlock()
		if old.stream == s { // with other tracks: its players have not got to its end yet
			w.before, old = old, old.before
			w.before.before = nil
		}
		if old != nil {
			old.stop()
		}
	}
	h.hls[s.name] = w
	go w.run(ctx)
	return w
}

// hlsFirstIdle is how long HLS is made without a request before its window is known.
const hlsFirstIdle = 30 * time.Second

// checkIdle ends w if there was no request for long enough. The next request does not find it any more.
func (w *hlsWindow) checkIdle() {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	keep := hlsFirstIdle
	if w.window != nil {
		keep = hlsIdle * w.length()
	}
	if left := w.endIdle(keep); left > 0 {
		w.idle.Reset(left)
	}
}

// endIdle ends w if there was no request for so long. Otherwise it returns how long that takes. Hub.mu and w.mu are held.
func (w *hlsWindow) endIdle(keep time.Duration) (left time.Duration) {
	left = keep - time.Duration(now()-w.asked.Load())
	if w.waiting > 0 {
		left = keep
	}
	if left <= 0 {
		w.forget()
		w.stop()
	}
	return left
}

// forget makes requests no longer find w. Hub.mu and w.mu are held.
func (w *hlsWindow) forget() {
	if h := w.hub; h.hls[w.stream.name] == w {
		delete(h.hls, w.stream.name)
		w.stream.hls = w.next()
		h.keepHLSNumbers(w.stream.name, w.stream.hls)
	}
}

// maxHLSNumbers bounds the names whose numbers are kept.
const maxHLSNumbers = 1 << 10

// keepHLSNumbers keeps the numbers for the next window of a name while they are ahead of the wall clock, as they are after
// a stream that was sent faster than real time. The stream may have ended. h.mu is held.
func (h *Hub) keepHLSNumbers(name string, n hlsNumbers) {
	first := h.cfg.HLS.firstMSN(time.Now())
	maps.DeleteFunc(h.hlsNumbers, func(_ string, n hlsNumbers) bool { return n.msn <= first })
	if n.msn > first && len(h.hlsNumbers) < maxHLSNumbers {
		h.hlsNumbers[name] = n
	}
}

// hlsNumbers are the first ones that a window may use: a window of the same name has used those before them.
type hlsNumbers struct{ epoch, msn, discontinuity uint64 }

// after returns numbers that follow both n and m.
func (n hlsNumbers) after(m hlsNumbers) hlsNumbers {
	return hlsNumbers{max(n.epoch, m.epoch), max(n.msn, m.msn), max(n.discontinuity, m.discontinuity)}
}

// next returns the numbers for the window that follows w. w.mu is held.
func (w *hlsWindow) next() hlsNumbers {
	if w.window == nil {
		return w.first
	}
	msn, _ := w.window.Next()
	return hlsNumbers{w.cfg.Epoch + 1, msn + 1, w.window.Discontinuity() + 1}
}

// run makes the window until nobody asks for it.
func (w *hlsWindow) run(ctx context.Context) {
	s := w.stream
	s.log.Debug("HLS started")
	in := fragmentReader{stream: s}
	err := w.make(ctx, &in)
	in.release()
	if (err == io.EOF || err == errTracksChanged) && w.window != nil {
		w.update(func() { w.window.End(); w.ended = true; w.save(true) })
		err = w.linger(ctx)
	}
	w.idle.Stop()
	defer w.silence.Stop()
	defer s.log.Debug("HLS ended", "reason", explain(err))
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	w.update(func() {
		w.forget()
		switch {
		case w.err != nil:
		case s.hub.ends.Err() != nil:
			w.err = refuse.ErrShutdown
		case err == errNotMade:
			w.err = cmp.Or(s.checkMP4(), error(refuse.New(http.StatusNotAcceptable, "stream %q: %v", s.name, err)))
		default:
			w.err = errAbsent(s.name)
		}
		if w.window != nil {
			if !w.ended {
				w.window.Flush()
				w.save(true)
			}
			w.window.Release()
		}
	})
}

// hasEnded reports whether nothing follows in w.
func (w *hlsWindow) hasEnded() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ended
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

// make adds the fragments to the window. It returns io.EOF at the end of the stream, and errTracksChanged where the stream
// goes on with other tracks.
func (w *hlsWindow) make(ctx context.Context, in *fragmentReader) error {
	var begin hlsBegin
	defer begin.release()
	var clock mediaClock
	for {
		var c millrace.Chain
		f, err := in.next(ctx, &c)
		if err == io.EOF && w.window == nil && len(begin.list) > 0 { // a short stream
			err = cmp.Or(w.open(ctx, in, &begin, &clock), err)
		}
		if err != nil {
			return err
		}
		if w.window != nil {
			if f.newInit && mediaName(*in.movie) != mediaName(w.movie) {
				c.Release()
				return errTracksChanged
			}
			w.add(in, &clock, f, &c)
			continue
		}
		begin.add(f, &c)
		if begin.enough(w.stream, *in.movie) {
			if err := w.open(ctx, in, &begin, &clock); err != nil {
				return err
			}
		}
	}
}

// open makes the window of what has come so far.
func (w *hlsWindow) open(ctx context.Context, in *fragmentReader, begin *hlsBegin, clock *mediaClock) error {
	cfg := begin.config(w.stream, *in.movie)
	cfg.Epoch = max(cfg.Epoch, w.first.epoch)
	cfg.FirstMSN = max(cfg.FirstMSN, w.first.msn)
	cfg.FirstDiscontinuity = w.first.discontinuity // hls.js does not play if it is large
	window, cfg, first, err := w.begin(ctx, cfg, mediaName(*in.movie), time.Now().Add(-begin.length()))
	if err != nil {
		return err
	}
	clock.begin(first)
	w.update(func() {
		w.window, w.cfg = window, cfg
		end := begin.firstEnd(w.stream)
		for i := range begin.list {
			b := &begin.list[i]
			if msn, _ := window.Next(); b.end > end && msn == cfg.FirstMSN && len(cfg.Past) == 0 {
				window.Flush()
			}
			w.put(in, clock, b.fragment, &b.body, first.Add(b.end))
		}
		// Some players take a playlist without a whole segment for a broken one, and give up after a few attempts.
		if msn, _ := window.Next(); msn == cfg.FirstMSN && len(cfg.Past) == 0 {
			window.Flush()
		}
		w.save(false)
	})
	begin.list = nil
	w.stream.log.Debug("HLS has a window", "target", cfg.Target, "part", cfg.Part)
	return nil
}

// add adds a fragment, and tells those who wait if there is something new for them. It takes ownership of body.
func (w *hlsWindow) add(in *fragmentReader, clock *mediaClock, f fragment, body *millrace.Chain) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.put(in, clock, f, body, time.Now()) {
		w.save(false)
		w.tell()
	}
}

// put is add without telling, of a fragment that has come at a time: it reports whether there is something new. w.mu is
// held.
func (w *hlsWindow) put(
	in *fragmentReader, clock *mediaClock, f fragment, body *millrace.Chain, came time.Time,
) (news bool) {
	switch {
	case f.newInit:
		var init millrace.Chain
		in.init.Clone(&init)
		news = w.window.Init(&init)
		w.movie, w.made = *in.movie, hlsRates{}
	case f.afterLoss || clock.cut: // after a pause, players have to jump
		news = w.window.Break()
	}
	lasts, at := clock.add(f, f.newInit || f.afterLoss, w.cfg.Target+hlsRounding, came)
	w.made.add(f, lasts, body.Len())
	return w.window.Add(hls.Fragment{Duration: lasts, Key: f.Key, KeyNext: f.keyNext, Time: at}, body) || news
}

// update changes w by f, and tells those who wait.
func (w *hlsWindow) update(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
	w.tell()
}

// tell wakes those who wait, because there is something new. w.mu is held.
func (w *hlsWindow) tell() {
	w.full, w.delta = nil, nil
	w.silent = false
	w.silence.Reset(max(hlsSilence*w.cfg.Target, time.Second))
	w.wake()
}

// wake wakes those who wait. w.mu is held.
func (w *hlsWindow) wake() {
	close(w.news)
	w.news = make(chan struct{})
}

// gaveUp reports whether a request that came at a time of now has waited for long enough: for a target duration, and
// nothing new has come for hlsSilence of them. w.mu is held.
func (w *hlsWindow) gaveUp(asked int64) bool {
	return w.silent && time.Duration(now()-asked) >= w.cfg.Target
}

// noteSilence wakes those who wait, once in a target duration, until there is something new.
func (w *hlsWindow) noteSilence() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil && !w.ended {
		w.silent = true
		w.silence.Reset(max(w.cfg.Target, time.Second))
		w.wake()
	}
}

// playlist returns the media playlist, which is made once. w.mu is held.
func (w *hlsWindow) playlist(skip bool) *HLSPlaylist {
	list := &w.full
	if skip {
		list = &w.delta
	}
	if *list == nil {
		w.hub.counters.hlsRendered.Add(1)
		*list = newPlaylist(w.window.AppendPlaylist(nil, skip), w.cfg.Target)
	}
	return *list
}

// zippers are expensive to make: each has about a megabyte.
var zippers = sync.Pool{New: func() any { return gzip.NewWriter(io.Discard) }}

// newPlaylist returns the playlist with a text.
func newPlaylist(text []byte, target time.Duration) *HLSPlaylist {
	var b bytes.Buffer
	z := zippers.Get().(*gzip.Writer)
	defer zippers.Put(z)
	z.Reset(&b)
	_, _ = z.Write(text) // a Buffer takes all
	_ = z.Close()
	return &HLSPlaylist{Text: text, Gzip: b.Bytes(), Target: target}
}
