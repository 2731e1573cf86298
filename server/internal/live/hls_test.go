package live_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/testkit/hlscheck"
	"github.com/millrace-io/millrace/media/flv"
	"github.com/millrace-io/millrace/media/hls"
	"github.com/millrace-io/millrace/server/internal/live"
	"github.com/millrace-io/millrace/server/internal/live/hlslive"
	"github.com/millrace-io/millrace/server/internal/refuse"
)

// hlsDefaults are the defaults of millrace serve.
var hlsDefaults = hlslive.Config{Part: 200 * time.Millisecond, Segment: 2 * time.Second,
	Segments: 6, MaxBytes: 64 << 20}

// playlist returns the current playlist, and checks it alone. Short parts are checked by follow,
// whose cases know where they are unavoidable.
func (h *hubTest) playlist(want hls.Reload, blocks bool) (string, error) {
	list, err := live.NewHLS(h.Hub).Media(h.t.Context(), "cam", hlslive.MediaName, want, blocks)
	if err != nil {
		return "", err
	}
	for _, problem := range hlscheck.Must(hlscheck.New().Media(string(list.Text))) {
		if !want.Skip && problem.Rule != "part-short" {
			h.t.Errorf("%v in\n%s", problem, list.Text)
		}
	}
	return string(list.Text), nil
}

var hintLine = regexp.MustCompile(`#EXT-X-PRELOAD-HINT:TYPE=PART,URI="([^"]+)"`)

// hint returns the object that the playlist announces.
func hint(t *testing.T, playlist string) hls.Object {
	t.Helper()
	m := hintLine.FindStringSubmatch(playlist)
	if m == nil {
		t.Fatalf("no hint in\n%s", playlist)
	}
	o, ok := hls.ParseObject(m[1])
	if !ok {
		t.Fatal(m[1])
	}
	return o
}

// pace sends tags at the pace of their timestamps: two tags in 40 ms.
func (h *hubTest) pace(p *live.Publisher, tags [][]byte) {
	for i, tag := range tags {
		if i%2 == 0 {
			time.Sleep(40 * time.Millisecond)
		}
		h.send(p, tag)
	}
}

// HLS works from the first request, waits for parts, continues while it is requested, and ends with
// the stream.
func TestHLS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHubTest(t, func(c *live.Config) { c.HLS = hlsDefaults })
		sc := newScript(30, 25, 1000) // GOPs of one second
		p := h.publish(sc.config...)
		h.pace(p, sc.tags[:150])
		master, err := live.NewHLS(h.Hub).Master(t.Context(), "cam")
		if err != nil || !strings.Contains(string(master.Text), "avc1.") ||
			!strings.Contains(string(master.Text), "FRAME-RATE=25") {
			t.Fatalf("the master playlist: %v, want the codec and the frame rate\n%s", err,
				master.Text)
		}
		synctest.Wait() // until everything before the first request is processed
		first, err := h.playlist(hls.Reload{}, false)
		if err != nil || !strings.Contains(first, "TARGETDURATION:2") {
			t.Fatalf("the media playlist: %v, want a target of 2 s\n%s", err, first)
		}
		next := hint(t, first)

		// A hundred requests wait for the next part, by playlist and by name. One playlist is made.
		_, made := h.Windows()
		got := make(chan string, 200)
		for range 100 {
			go func() {
				list, err := live.NewHLS(h.Hub).Media(t.Context(), "cam", hlslive.MediaName,
					hls.Reload{MSN: next.MSN, Part: next.Part}, true)
				if err != nil {
					t.Error(err)
					return
				}
				got <- fmt.Sprintf("%p", list)
			}()
			go func() {
				var c millrace.Chain
				defer c.Release()
				if err := live.NewHLS(h.Hub).Object(t.Context(), "cam", next, &c); err != nil ||
					c.Len() < 5*1000 {
					t.Errorf("the next part: %d bytes, %v, want 5,000 or more", c.Len(), err)
				}
				got <- ""
			}()
		}
		synctest.Wait()
		if st := h.Stats().HLS; st.Waiting != 200 || st.Windows != 1 || st.Bytes == 0 {
			t.Errorf("%+v, want 200 waiting requests and one window", st)
		}
		h.pace(p, sc.tags[150:162])
		lists := map[string]int{}
		for range 200 {
			lists[<-got]++
		}
		if _, n := h.Windows(); n-made != 1 || len(lists) != 2 {
			t.Errorf("%d playlists were made, %v", n-made, lists)
		}

		// These objects are too far ahead, of another epoch, already dropped, or with another name.
		for _, o := range []hls.Object{
			{Kind: hls.KindPart, Epoch: next.Epoch, MSN: next.MSN + 3},
			{Kind: hls.KindPart, Epoch: next.Epoch, MSN: next.MSN, Part: next.Part + 5},
			{Kind: hls.KindPart, Epoch: next.Epoch + 1, MSN: next.MSN, Part: next.Part + 1},
			{Kind: hls.KindSegment, Epoch: next.Epoch, MSN: next.MSN + 1},
			{Kind: hls.KindInit, Epoch: next.Epoch, MSN: 1},
		} {
			var refused *refuse.Refusal
			if err := live.NewHLS(h.Hub).Object(t.Context(), "cam", o,
				new(millrace.Chain)); !errors.As(err, &refused) ||
				refused.Status != http.StatusNotFound {
				t.Errorf("%s, which does not exist: %v, want status 404", o, err)
			}
		}
		var refused *refuse.Refusal
		if _, err := h.playlist(hls.Reload{MSN: next.MSN + 5}, true); !errors.As(err, &refused) ||
			refused.Status != http.StatusBadRequest {
			t.Errorf("too far ahead: %v", err)
		}

		// At the end, HLS waits for the publisher's return, and then for players.
		h.done(p, nil)
		list, err := h.playlist(hls.Reload{MSN: next.MSN + 2, Part: 0}, true)
		if err != nil || !strings.HasSuffix(list, "#EXT-X-ENDLIST\n") {
			t.Errorf("the last playlist: %v, want its end\n%s", err, list)
		}
		time.Sleep(11 * time.Second)
		if _, err := h.playlist(hls.Reload{}, false); err != nil {
			t.Errorf("eleven seconds after the end: %v", err)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if n, _ := h.Windows(); n != 0 {
			t.Errorf("%d windows after the end", n)
		}
		h.Close()
	})
}

// A window without requests ends. The next request starts another one with greater numbers.
func TestHLSEndsWithoutRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHubTest(t, func(c *live.Config) { c.HLS = hlsDefaults })
		sc := newScript(70, 25, 1000)
		p := h.publish(sc.config...)
		h.pace(p, sc.tags[:150])
		list, err := h.playlist(hls.Reload{}, false)
		if err != nil {
			t.Fatal(err)
		}
		s := h.LookUp("cam")
		before := hint(t, list)
		h.pace(p, sc.tags[150:150+50*35])
		synctest.Wait()
		if len(s.Forms().All()) == 1 {
			t.Error("35 s after the last request, HLS is not made any more")
		}
		h.pace(p, sc.tags[150+50*35:150+50*38])
		synctest.Wait()
		if n, _ := h.Windows(); len(s.Forms().All()) > 1 || n != 0 {
			t.Error("38 s after the last request, HLS is still made")
		}
		if list, err = h.playlist(hls.Reload{}, false); err != nil {
			t.Fatal(err)
		}
		if after := hint(t, list); after.Epoch <= before.Epoch || after.MSN <= before.MSN {
			t.Errorf("%s, and later %s", before, after)
		}
		h.Close()
		h.done(p, nil)
		synctest.Wait()
		if _, err := h.playlist(hls.Reload{}, false); err != refuse.ErrShutdown {
			t.Errorf("of a server that shuts down: %v", err)
		}
	})
}

// When memory is short, no more windows without requests end than necessary.
func TestIdleHLSEndsWhenMemoryIsShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHubTest(t, func(c *live.Config) { c.HLS = hlsDefaults })
		sc := newScript(10, 25, 1000)
		var publishers []*live.Publisher
		for _, name := range []string{"one", "two", "three"} {
			p, err := h.Open(name, "test", live.Terms{})
			if err != nil {
				t.Fatal(err)
			}
			p.Begin(flv.Header{HasAudio: true, HasVideo: true})
			h.send(p, sc.config...)
			publishers = append(publishers, p)
			go func() {
				list, err := live.NewHLS(h.Hub).Media(t.Context(), name, hlslive.MediaName,
					hls.Reload{}, false)
				if err != nil || len(list.Text) == 0 {
					t.Errorf("%s: %v", name, err)
				}
			}()
			h.pace(p, sc.tags[:150])
		}
		windows := func(want int) {
			t.Helper()
			synctest.Wait()
			if n, _ := h.Windows(); n != want {
				t.Errorf("%d windows, want %d", n, want)
			}
		}
		if n := h.EndIdle(1 << 30); n > 0 {
			t.Errorf("%d bytes were freed while players use the windows", n)
		}
		windows(3)
		time.Sleep(12 * time.Second) // the length of a playlist
		if n := h.EndIdle(1); n == 0 {
			t.Error("nothing was freed")
		}
		windows(2)
		h.EndIdle(1 << 30)
		windows(0)
		h.Close()
		for _, p := range publishers {
			h.done(p, nil)
		}
	})
}

// A returning publisher continues HLS without a discontinuity if the codecs are the same.
func TestHLSOverAReturn(t *testing.T) {
	for _, codecs := range []string{"same", "other"} {
		t.Run(codecs, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHubTest(t, func(c *live.Config) { c.HLS = hlsDefaults })
				sc := newScript(30, 25, 1000)
				p := h.publish(sc.config...)
				h.pace(p, sc.tags[:150])
				list, err := h.playlist(hls.Reload{}, false)
				if err != nil {
					t.Fatal(err)
				}
				next := hint(t, list)
				h.pace(p, sc.tags[150:200])
				h.done(p, errors.New("cut"))
				time.Sleep(5 * time.Second)
				config := sc.config
				if codecs == "other" {
					// 48 kHz
					config = [][]byte{sc.config[0], sc.config[1],
						flvTag(8, 0, []byte("\xaf\x00\x11\x90"))}
				}
				p = h.publish(config...)
				h.pace(p, sc.tags[:150])
				if list, err = h.playlist(hls.Reload{}, false); err != nil {
					t.Fatal(err)
				}
				maps, breaks := strings.Count(list, "EXT-X-MAP:"),
					strings.Count(list, "EXT-X-DISCONTINUITY\n")
				if after := hint(t, list); after.Epoch != next.Epoch || after.MSN <= next.MSN {
					t.Errorf("%s, and later %s", next, after)
				}
				if want := map[string]int{"same": 0, "other": 1}[codecs]; breaks != want ||
					maps != 1+want {
					t.Errorf("%d discontinuities, %d maps\n%s", breaks, maps, list)
				}
				h.Close()
				h.done(p, nil)
			})
		})
	}
}

// Requests wait for a publisher. They are refused if there is none, or if it has nothing for HLS.
func TestHLSRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHubTest(t, func(c *live.Config) {
			c.HLS, c.ViewerWait, c.MaxViewers = hlsDefaults, 10*time.Second, 1
		})
		status := func(err error) int {
			var refused *refuse.Refusal
			if errors.As(err, &refused) {
				return refused.Status
			}
			return 0
		}
		if _, err := h.playlist(hls.Reload{}, false); status(err) != http.StatusNotFound {
			t.Errorf("without a publisher: %v", err)
		}
		got := make(chan error)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			_, err := live.NewHLS(h.Hub).Master(ctx, "cam")
			got <- err
		}()
		synctest.Wait()
		if _, err := live.NewHLS(h.Hub).Master(t.Context(),
			"cam"); status(err) != http.StatusServiceUnavailable {
			t.Errorf("one more than may wait: %v", err)
		}
		cancel()
		if err := <-got; err == nil {
			t.Error("a playlist for a client that has gone")
		}
		p := h.open()
		if err := p.ReadBody(strings.NewReader("bytes")); err != nil {
			t.Fatal(err)
		}
		if _, err := h.playlist(hls.Reload{}, false); status(err) != http.StatusNotAcceptable {
			t.Errorf("of bytes: %v", err)
		}
		h.done(p, nil)
		sc := newScript(2, 25, 100)
		p = h.publish(sc.config[0]) // no codecs
		go func() {
			_, err := live.NewHLS(h.Hub).Master(t.Context(), "cam")
			got <- err
		}()
		time.Sleep(time.Second)
		for at := range uint32(100) {
			h.send(p, flvTag(9, 40*at, []byte("\x14\x01\x00\x00\x00VP6")))
		}
		if err := <-got; status(err) != http.StatusNotAcceptable {
			t.Errorf("of VP6: %v", err)
		}
		h.Close()
		h.done(p, nil)
	})
}

// Before the first keyframe, only audio can be played. Parts have their usual length when video
// arrives. Without audio, a request waits, and gets 404 when the stream ends.
func TestHLSWithoutKeyFrames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHubTest(t, func(c *live.Config) { c.HLS, c.PublisherReturn = hlsDefaults, 0 })
		sc := newScript(1, 500, 300)
		p := h.publish(sc.config...)
		go func() { _, _ = h.playlist(hls.Reload{}, false) }()
		synctest.Wait()
		h.pace(p, sc.tags[2:])
		list, err := h.playlist(hls.Reload{}, false)
		if err != nil || !strings.Contains(list, "PART-TARGET=0.282") ||
			!strings.Contains(list, "#EXTINF:") || strings.Contains(list, "INDEPENDENT") {
			t.Errorf("without keyframes: %v, want segments and no INDEPENDENT\n%s", err, list)
		}
		for i, tag := range newScript(5, 25, 300).tags {
			if i%2 == 0 {
				time.Sleep(40 * time.Millisecond)
			}
			at := uint32(20_000 + i/2*40)
			tag[4], tag[5], tag[6] = byte(at>>16), byte(at>>8), byte(at)
			h.send(p, tag)
		}
		synctest.Wait()
		list, err = h.playlist(hls.Reload{}, false)
		if err != nil || !strings.Contains(list, "INDEPENDENT=YES") {
			t.Errorf("after a keyframe: %v, want INDEPENDENT\n%s", err, list)
		}
		h.done(p, nil)
		h.Close()
	})
	synctest.Test(t, func(t *testing.T) {
		h := newHubTest(t, func(c *live.Config) { c.HLS, c.PublisherReturn = hlsDefaults, 0 })
		sc := newScript(1, 500, 300)
		p := h.publish(sc.config[1])
		got := make(chan error, 1)
		go func() {
			_, err := h.playlist(hls.Reload{}, false)
			got <- err
		}()
		for i := 2; i < len(sc.tags); i += 2 {
			time.Sleep(40 * time.Millisecond)
			h.send(p, sc.tags[i])
		}
		var refused *refuse.Refusal
		if err := <-got; !errors.As(err, &refused) ||
			refused.Status != http.StatusServiceUnavailable {
			t.Errorf("without a keyframe: %v, want status 503", err)
		}
		go func() {
			_, err := h.playlist(hls.Reload{}, false)
			got <- err
		}()
		synctest.Wait()
		h.done(p, nil)
		if err := <-got; !errors.As(err, &refused) || refused.Status != http.StatusNotFound {
			t.Errorf("at the end: %v", err)
		}
		h.Close()
	})
}
