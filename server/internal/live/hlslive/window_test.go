package hlslive

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/testkit/leaktest"
	"github.com/millrace-io/millrace/media/hls"
	"github.com/millrace-io/millrace/media/mp4"
	"github.com/millrace-io/millrace/server/internal/conn/limit"
	"github.com/millrace-io/millrace/server/internal/refuse"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// defaults are the defaults of millrace serve.
var defaults = Config{Part: 200 * time.Millisecond, Segment: 2 * time.Second, Segments: 6,
	MaxBytes: 64 << 20}

// errClosed is the error with which a test closes its window.
var errClosed = errors.New("closed")

// A testSource returns the fragments that a test sends.
type testSource struct {
	interval  time.Duration
	fragments chan Fragment // closed at the end of the stream
	released  bool
}

func (s *testSource) Next(ctx context.Context, dst *millrace.Chain) (Fragment, error) {
	select {
	case f, ok := <-s.fragments:
		if !ok {
			return f, io.EOF
		}
		dst.AppendCopy(make([]byte, 1000))
		return f, nil
	case <-ctx.Done():
		return Fragment{}, ctx.Err()
	}
}

func (s *testSource) AppendInit(dst *millrace.Chain) { dst.AppendCopy([]byte("init")) }
func (s *testSource) KeyInterval() time.Duration     { return s.interval }
func (s *testSource) ExpectsKey() bool               { return true }
func (s *testSource) Release()                       { s.released = true }

// A testOwner may have lost the stream.
type testOwner struct {
	epoch   atomic.Uint64
	stopped bool
}

func (o *testOwner) Epoch() uint64 { return o.epoch.Load() }
func (o *testOwner) Current() bool { return !o.stopped }

// A windowTest runs a Window.
type windowTest struct {
	*Window
	t      *testing.T
	source *testSource
	at     time.Duration // time of the next fragment
	stop   context.CancelFunc
	ended  chan error // result of Run
}

func newWindowTest(t *testing.T, store SegmentStore, owner Owner) *windowTest {
	shared := &Shared{Config: &defaults, Store: store,
		Waiting: limit.New(10, errors.New("full"), refuse.ErrShutdown)}
	source := &testSource{fragments: make(chan Fragment)}
	ctx, stop := context.WithCancel(t.Context())
	w := &windowTest{
		Window: New(shared, "cam", slog.New(slog.DiscardHandler), source, owner, SequenceStart{}),
		t:      t, source: source, stop: stop, ended: make(chan error),
	}
	go func() {
		err := w.Run(ctx)
		w.Close(errClosed)
		w.ended <- err
	}()
	return w
}

// close ends the test.
func (w *windowTest) close() {
	w.stop()
	<-w.ended
	if !w.source.released {
		w.t.Error("the source was not released")
	}
}

// send sends a second of 25 frames in real time.
func (w *windowTest) send(movie *mp4.Movie) {
	const lasts = 40 * time.Millisecond
	for i := range 25 {
		time.Sleep(lasts)
		w.source.fragments <- Fragment{
			FragmentInfo: mp4.FragmentInfo{Start: w.at, End: w.at + lasts, Pictures: 1,
				Key: i == 0},
			Movie: movie, NewInit: w.at == 0 || i == 0 && movie.Audio, KeyNext: i == 24,
		}
		w.at += lasts
	}
	synctest.Wait()
}

// playlist returns the current media playlist.
func (w *windowTest) playlist() string {
	w.t.Helper()
	list, err := w.Playlist(w.t.Context(), MediaName, hls.Reload{}, false)
	if err != nil {
		w.t.Fatal(err)
	}
	return string(list.Text)
}

// next returns the part that a playlist announces.
func next(t *testing.T, list string) hls.Object {
	t.Helper()
	_, hint, _ := strings.Cut(list, `PRELOAD-HINT:TYPE=PART,URI="`)
	hint, _, _ = strings.Cut(hint, `"`)
	o, ok := hls.ParseObject(hint)
	if !ok {
		t.Fatalf("no hint:\n%s", list)
	}
	return o
}

var video = &mp4.Movie{Video: true, Codecs: "avc1.42c01e"}

// A window serves playlists and objects, answers waiting requests, ends its playlist with the
// stream, and keeps it as long as players need it.
func TestWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWindowTest(t, nil, nil)
		master := make(chan string)
		go func() {
			list, err := w.Master(t.Context())
			if err != nil {
				t.Error(err)
			}
			master <- string(list.Text)
		}()
		for range 4 {
			w.send(video)
		}
		if list := <-master; !strings.Contains(list, video.Codecs) ||
			!strings.HasSuffix(list, VideoName+"\n") {
			t.Errorf("the multivariant playlist:\n%s", list)
		}
		part := next(t, w.playlist())
		var body millrace.Chain
		got := make(chan error)
		go func() { got <- w.Object(t.Context(), part, &body) }()
		synctest.Wait()
		if st := w.Stats(); st.Waiting != 1 || st.Windows != 1 || st.Bytes == 0 {
			t.Errorf("%+v, want one waiting request and one window", st)
		}
		w.send(video)
		if err := <-got; err != nil || body.Len()%1000 != 0 || body.Len() == 0 {
			t.Errorf("%d bytes of a part, %v", body.Len(), err)
		}
		body.Release()
		close(w.source.fragments)
		synctest.Wait()
		end := w.playlist()
		if !strings.HasSuffix(end, "#EXT-X-ENDLIST\n") || !w.Ended() {
			t.Errorf("after the end:\n%s", end)
		}
		time.Sleep(11 * time.Second)
		if w.playlist() != end {
			t.Error("the end is gone while players need it")
		}
		if err := <-w.ended; err != nil {
			t.Errorf("a playlist with a proper end: %v", err)
		}
		if _, err := w.Playlist(t.Context(), MediaName, hls.Reload{}, false); err != errClosed {
			t.Errorf("after Close: %v", err)
		}
	})
}

// A request for the first playlist fails after mostStart if the publisher sends too little.
func TestFirstPlaylistIsAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWindowTest(t, nil, nil)
		defer w.close()
		begun := time.Now()
		_, err := w.Playlist(t.Context(), MediaName, hls.Reload{}, false)
		if refused, ok := errors.AsType[*refuse.Refusal](err); !ok ||
			refused.Status != http.StatusServiceUnavailable || time.Since(begun) != mostStart {
			t.Errorf("after %v: %v, want status 503 after %v", time.Since(begun), err, mostStart)
		}
		go func() {
			for range 4 {
				w.send(video)
			}
		}()
		if list := w.playlist(); !strings.Contains(list, "#EXTINF") {
			t.Errorf("the first playlist is\n%s", list)
		}
		time.Sleep(5 * time.Second) // the goroutine ends
	})
}

// A request for the next part waits, and so does a request for the first part of the next segment,
// because the current segment may end first. Later parts are refused.
func TestNextPartsAreAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWindowTest(t, nil, nil)
		defer w.close()
		for range 4 {
			w.send(video)
		}
		part := next(t, w.playlist())
		first := hls.Object{Kind: hls.KindPart, Epoch: part.Epoch, MSN: part.MSN + 1}
		for _, o := range []hls.Object{
			{Kind: hls.KindPart, Epoch: part.Epoch, MSN: part.MSN, Part: part.Part + 1},
			{Kind: hls.KindPart, Epoch: part.Epoch, MSN: part.MSN + 1, Part: 1},
			{Kind: hls.KindPart, Epoch: part.Epoch, MSN: part.MSN + 2},
			{Kind: hls.KindPart, Epoch: part.Epoch + 1, MSN: part.MSN, Part: part.Part},
			{Kind: hls.KindSegment, Epoch: part.Epoch, MSN: part.MSN},
		} {
			var refused *refuse.Refusal
			if err := w.Object(t.Context(), o, new(millrace.Chain)); !errors.As(err, &refused) ||
				refused.Status != http.StatusNotFound {
				t.Errorf("%v after %v: %v", o, part, err)
			}
		}
		var bodies [2]millrace.Chain
		got := make(chan error)
		for i, o := range []hls.Object{part, first} {
			go func() { got <- w.Object(t.Context(), o, &bodies[i]) }()
		}
		go func() {
			for range 4 {
				w.send(video)
			}
			got <- nil
		}()
		for range 3 {
			if err := <-got; err != nil {
				t.Error(err)
			}
		}
		for i := range bodies {
			if bodies[i].Len() == 0 {
				t.Errorf("part %d of 2 is empty", i+1)
			}
			bodies[i].Release()
		}
	})
}

// A window is not idle while a request waits, and for some time after that.
func TestIdleIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWindowTest(t, nil, nil)
		defer w.close()
		if left := w.IdleIn(3); left != firstIdle {
			t.Errorf("without a playlist: %v", left)
		}
		for range 4 {
			w.send(video)
		}
		part := next(t, w.playlist())
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			_, _ = w.Playlist(ctx, MediaName, hls.Reload{MSN: part.MSN, Part: part.Part}, true)
		}()
		synctest.Wait()
		w.asked.Store(nanotime() - int64(time.Hour))
		if left := w.IdleIn(1); left != 12*time.Second {
			t.Errorf("while a request waits: %v", left)
		}
		cancel()
		synctest.Wait()
		if left := w.IdleIn(3); left != 36*time.Second {
			t.Errorf("after a request: %v", left)
		}
		time.Sleep(36 * time.Second)
		if left := w.IdleIn(3); left != 0 {
			t.Errorf("IdleIn(3) = %v later, want 0", left)
		}
	})
}

// While the owner of the stream is unknown, players are sent to another node, but not after the
// stream has ended.
func TestFencedOwner(t *testing.T) {
	for _, ends := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			owner := &testOwner{}
			owner.epoch.Store(1)
			w := newWindowTest(t, nil, owner)
			defer w.close()
			for range 4 {
				w.send(video)
			}
			want := ErrElsewhere
			if ends {
				w.Disown()
				want = nil
			}
			owner.stopped = true
			if _, err := w.Playlist(t.Context(), MediaName, hls.Reload{}, false); err != want {
				t.Errorf("ends %v: %v, want %v", ends, err, want)
			}
			w.Fail(errClosed)
			if err := w.Object(t.Context(), hls.Object{}, new(millrace.Chain)); err != errClosed {
				t.Error(err)
			}
		})
	}
}

// When the tracks of a stream change, its playlist ends, because players cannot follow the change.
func TestTracksChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWindowTest(t, nil, nil)
		defer w.close()
		for range 4 {
			w.send(video)
		}
		go w.source.send(t.Context(), Fragment{Movie: &mp4.Movie{Video: true, Audio: true},
			NewInit: true})
		synctest.Wait()
		if name, ended := w.Media(); name != VideoName || !ended {
			t.Errorf("the playlist is %s, ended: %v, want the video's, ended", name, ended)
		}
		var refused *refuse.Refusal
		if _, err := w.Playlist(t.Context(), AudioName, hls.Reload{}, false); !errors.As(err,
			&refused) || refused.Status != http.StatusNotFound {
			t.Errorf("the playlist of other tracks: %v", err)
		}
		if after := w.NextStart(); after.MSN == 0 || !w.Has(after.Epoch-1) {
			t.Errorf("the next window begins at %+v", after)
		}
	})
}

func (s *testSource) send(ctx context.Context, f Fragment) {
	select {
	case s.fragments <- f:
	case <-ctx.Done():
	}
}
