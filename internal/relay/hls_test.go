package relay

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
	"github.com/millrace-io/millrace/frame/hls"
	"github.com/millrace-io/millrace/frame/mp4"
	"github.com/millrace-io/millrace/internal/refuse"
	"github.com/millrace-io/millrace/internal/testkit/hlscheck"
)

// hlsDefaults are those of millrace serve.
var hlsDefaults = HLSConfig{Part: 200 * time.Millisecond, Segment: 2 * time.Second, Segments: 6, MaxBytes: 64 << 20}

// What a window's times are chosen to be, of how long frames last and how far keyframes are apart.
func TestHLSTimes(t *testing.T) {
	video, sound := mp4.Movie{Video: true}, mp4.Movie{Audio: true}
	both := mp4.Movie{Video: true, Audio: true}
	for _, tt := range []struct {
		name         string
		movie        mp4.Movie
		group        int64 // ms
		lasts        []int // ms, of the fragments in turn; below 0 without video
		target, part time.Duration
	}{
		{"25 frames a second", video, 2000, []int{40}, 2 * time.Second, 282 * time.Millisecond},
		{"30, in whole milliseconds", video, 2000, []int{33, 33, 34}, 2 * time.Second, 282 * time.Millisecond},
		{"24", video, 2000, []int{42, 41, 42}, 2 * time.Second, 282 * time.Millisecond},
		{"60", video, 1000, []int{17, 16, 17}, 2 * time.Second, 282 * time.Millisecond},
		{"15", video, 1000, []int{67, 66, 67}, 2 * time.Second, 282 * time.Millisecond},
		{"7", video, 1000, []int{143}, 2 * time.Second, 288 * time.Millisecond},
		{"5", video, 1000, []int{200}, 2 * time.Second, 402 * time.Millisecond},
		{"5, and audio", both, 1000, []int{200}, 2 * time.Second, 282 * time.Millisecond},
		{"one in 2 s, and audio", both, 2000, []int{-23, -23, 2000}, 2 * time.Second, 282 * time.Millisecond},
		{"groups a little longer", video, 2002, []int{33, 34}, 2 * time.Second, 282 * time.Millisecond},
		{"groups a little shorter", video, 1997, []int{40}, 2 * time.Second, 282 * time.Millisecond},
		{"two groups a little shorter", both, 998, []int{40}, 2 * time.Second, 282 * time.Millisecond},
		{"groups that do not fit", video, 1500, []int{40}, 3 * time.Second, 282 * time.Millisecond},
		{"12.5 a second, every 60 a keyframe", video, 4800, []int{80}, 5 * time.Second, 322 * time.Millisecond},
		{"long groups", video, 10_000, []int{40}, 10 * time.Second, 282 * time.Millisecond},
		{"groups of a minute", video, 60_000, []int{40}, 16 * time.Second, 282 * time.Millisecond},
		{"groups that are not known", video, 0, []int{40}, 10 * time.Second, 282 * time.Millisecond},
		{"a frame a second", video, 2000, []int{1000}, 2 * time.Second, 1002 * time.Millisecond},
		{"irregular frames", video, 2000, []int{33, 67}, 2 * time.Second, 447 * time.Millisecond},
		{"irregular frames, and audio", both, 2000, []int{33, 67}, 2 * time.Second, 282 * time.Millisecond},
		{"segments of 2.05 s", video, 1025, []int{40}, 2 * time.Second, 282 * time.Millisecond},
		{"audio first", both, 2000, []int{-107, -106, -107, 40, 40, 40}, 2 * time.Second, 282 * time.Millisecond},
		{"audio", sound, 0, []int{116, 117}, 2 * time.Second, 236 * time.Millisecond},
		{"fragments that do not last", video, 2000, []int{0}, 2 * time.Second, 282 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := testConfig()
			cfg.HLS = hlsDefaults
			if tt.group == 1025 {
				cfg.HLS.Segment = 2050 * time.Millisecond
			}
			s := &stream{hub: &Hub{cfg: cfg}}
			s.usualInterval.Store(tt.group)
			var b hlsBegin
			at := time.Duration(0)
			for i := range 60 {
				f := fragment{FragmentInfo: mp4.FragmentInfo{Start: at}}
				if tt.movie.Video {
					f.Pictures = 1
				}
				if tt.movie.Audio {
					f.Sounds = 1
				}
				d := time.Duration(tt.lasts[i%len(tt.lasts)]) * time.Millisecond
				if d < 0 {
					d, f.Pictures = -d, 0
				}
				at += d
				f.End = at
				b.add(f, new(millrace.Chain))
			}
			if tt.group == 0 && tt.movie.Video && b.enough(s, tt.movie) != (b.length() >= 4*time.Second) {
				t.Errorf("enough after %v", b.length())
			}
			c := b.config(s, tt.movie)
			if c.Target != tt.target || c.Part != tt.part {
				t.Errorf("target %v and part %v, want %v and %v", c.Target, c.Part, tt.target, tt.part)
			}
			if _, err := hls.NewWindow(c); err != nil {
				t.Error(err)
			}
		})
	}
}

// A playlist of slides is made when it is known how far apart they are, however few they are.
func TestHLSEnough(t *testing.T) {
	for _, tt := range []struct {
		name  string
		lasts time.Duration // of a fragment
		want  int           // how many fragments are enough
	}{
		{"25 frames a second", 40 * time.Millisecond, 15},
		{"a frame a second", time.Second, 4},
		{"slides of 2 s", 2 * time.Second, 2},
		{"slides of 10 s", 10 * time.Second, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := testConfig()
			cfg.HLS = hlsDefaults
			s := &stream{hub: &Hub{cfg: cfg}}
			s.usualInterval.Store(tt.lasts.Milliseconds())
			var b hlsBegin
			movie, n := mp4.Movie{Video: true}, 0
			for at := time.Duration(0); n < 100 && !b.enough(s, movie); n++ {
				f := fragment{FragmentInfo: mp4.FragmentInfo{Start: at, End: at + tt.lasts, Pictures: 1, Key: true}}
				b.add(f, new(millrace.Chain))
				at += tt.lasts
			}
			if n != tt.want {
				t.Errorf("enough after %d fragments, want %d", n, tt.want)
			}
		})
	}
}

// The second segment begins where the first playlist is made and ends at the next keyframe, which
// is not only some frames later, whenever the distance of keyframes gets known.
func TestHLSBeginsBeforeKeyframes(t *testing.T) {
	const lasts = 40 * time.Millisecond
	for _, group := range []int{20, 25, 50, 100} {
		for known := range group + 1 {
			cfg := testConfig()
			cfg.HLS = hlsDefaults
			s := &stream{hub: &Hub{cfg: cfg}}
			var b hlsBegin
			n := 0
			for ; n < 200 && !b.enough(s, mp4.Movie{Video: true}); n++ {
				if n == known {
					s.usualInterval.Store(int64(group) * lasts.Milliseconds())
				}
				at := time.Duration(n) * lasts
				info := mp4.FragmentInfo{Start: at, End: at + lasts, Pictures: 1, Key: n%group == 0}
				b.add(fragment{FragmentInfo: info}, new(millrace.Chain))
			}
			rest := lasts*time.Duration((n+group-1)/group*group) - b.firstEnd(s).Truncate(lasts)
			if rest > 0 && rest < 160*time.Millisecond {
				t.Errorf("keyframes %d frames apart, known at %d: a segment of %v", group, known, rest)
			}
		}
	}
}

func TestAudience(t *testing.T) {
	const period = 2 * time.Second
	var a audience
	at := int64(1)
	for second := range 20 {
		for range 5 { // three players ask for each part of 200 ms, and one for a playlist every two seconds
			for range 3 {
				a.add(at, period, 200*time.Millisecond)
			}
			at += int64(200 * time.Millisecond)
		}
		if second%2 == 1 {
			a.add(at-1, period, period)
		}
		if n := a.size(at-1, period); second >= 4 && n != 4 {
			t.Errorf("after %d s: %d players, want 4", second, n)
		}
	}
	if n := a.size(at+int64(2*period), period); n != 0 {
		t.Errorf("%d players when all have gone", n)
	}
}

// playlist returns what is there, and checks what can be said of it alone. Short parts are left to follow, whose cases
// say where they cannot be avoided.
func (h *hubTest) playlist(want hls.Reload, blocks bool) (string, error) {
	list, err := h.HLSMedia(h.t.Context(), "cam", HLSMediaName, want, blocks)
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

// hint returns the object that the playlist promises.
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

// pace sends tags at the pace of their times: 40 ms for two.
func (h *hubTest) pace(p *Publisher, tags [][]byte) {
	for i, tag := range tags {
		if i%2 == 0 {
			time.Sleep(40 * time.Millisecond)
		}
		h.send(p, tag)
	}
}

// HLS is there from the first request on, waits for parts, goes on while it is asked for, and ends with the stream.
func TestHLS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHubTest(t, func(c *Config) { c.HLS = hlsDefaults })
		sc := newScript(30, 25, 1000) // groups of a second
		p := h.publish(sc.config...)
		h.pace(p, sc.tags[:150])
		master, err := h.HLSMaster(t.Context(), "cam")
		if err != nil || !strings.Contains(string(master.Text), "avc1.") || !strings.Contains(string(master.Text), "FRAME-RATE=25") {
			t.Fatalf("%v\n%s", err, master.Text)
		}
		synctest.Wait() // until all is made that came before the first request
		first, err := h.playlist(hls.Reload{}, false)
		if err != nil || !strings.Contains(first, "TARGETDURATION:2") {
			t.Fatalf("%v\n%s", err, first)
		}
		next := hint(t, first)

		// A hundred wait for the next part, by playlist and by name. One playlist is made.
		made := h.counters.hlsRendered.Load()
		got := make(chan string, 200)
		for range 100 {
			go func() {
				list, err := h.HLSMedia(t.Context(), "cam", HLSMediaName, hls.Reload{MSN: next.MSN, Part: next.Part}, true)
				if err != nil {
					t.Error(err)
					return
				}
				got <- fmt.Sprintf("%p", list)
			}()
			go func() {
				var c millrace.Chain
				defer c.Release()
				if err := h.HLSObject(t.Context(), "cam", next, &c); err != nil || c.Len() < 5*1000 {
					t.Errorf("%d bytes, %v", c.Len(), err)
				}
				got <- ""
			}()
		}
		synctest.Wait()
		if st := h.Stats().HLS; st.Waiting != 200 || st.Windows != 1 || st.Bytes == 0 {
			t.Errorf("%+v", st)
		}
		h.pace(p, sc.tags[150:162])
		lists := map[string]int{}
		for range 200 {
			lists[<-got]++
		}
		if n := h.counters.hlsRendered.Load() - made; n != 1 || len(lists) != 2 {
			t.Errorf("%d playlists were made, %v", n, lists)
		}

		// What is too far ahead, of another epoch, gone or not named so.
		for _, o := range []hls.Object{
			{Kind: hls.KindPart, Epoch: next.Epoch, MSN: next.MSN + 3},
			{Kind: hls.KindPart, Epoch: next.Epoch, MSN: next.MSN, Part: next.Part + 5},
			{Kind: hls.KindPart, Epoch: next.Epoch + 1, MSN: next.MSN, Part: next.Part + 1},
			{Kind: hls.KindSegment, Epoch: next.Epoch, MSN: next.MSN + 1},
			{Kind: hls.KindInit, Epoch: next.Epoch, MSN: 1},
		} {
			var refused *refuse.Refusal
			if err := h.HLSObject(t.Context(), "cam", o, new(millrace.Chain)); !errors.As(err, &refused) || refused.Status != http.StatusNotFound {
				t.Errorf("%s: %v", o, err)
			}
		}
		var refused *refuse.Refusal
		if _, err := h.playlist(hls.Reload{MSN: next.MSN + 5}, true); !errors.As(err, &refused) || refused.Status != http.StatusBadRequest {
			t.Errorf("too far ahead: %v", err)
		}

		// The end, which waits for the publisher's return and then for players.
		h.done(p, nil)
		list, err := h.playlist(hls.Reload{MSN: next.MSN + 2, Part: 0}, true)
		if err != nil || !strings.HasSuffix(list, "#EXT-X-ENDLIST\n") {
			t.Errorf("%v\n%s", err, list)
		}
		time.Sleep(11 * time.Second)
		if _, err := h.playlist(hls.Reload{}, false); err != nil {
			t.Errorf("eleven seconds after the end: %v", err)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if n := len(h.hls); n != 0 {
			t.Errorf("%d windows after the end", n)
		}
		h.Close()
	})
}

// A window that is not asked for ends, and the next request gets another one, whose numbers are greater.
func TestHLSEndsWithoutRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHubTest(t, func(c *Config) { c.HLS = hlsDefaults })
		sc := newScript(70, 25, 1000)
		p := h.publish(sc.config...)
		h.pace(p, sc.tags[:150])
		list, err := h.playlist(hls.Reload{}, false)
		if err != nil {
			t.Fatal(err)
		}
		s := h.lookUp("cam")
		before := hint(t, list)
		h.pace(p, sc.tags[150:150+50*35])
		synctest.Wait()
		if s.made[formatMP4] == nil {
			t.Error("35 s after the last request, HLS is not made any more")
		}
		h.pace(p, sc.tags[150+50*35:150+50*38])
		synctest.Wait()
		if s.made[formatMP4] != nil || len(h.hls) != 0 {
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

// A publisher that comes back goes on where the other one was: without a discontinuity if the codecs are the same.
func TestHLSOverAReturn(t *testing.T) {
	for _, codecs := range []string{"same", "other"} {
		t.Run(codecs, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHubTest(t, func(c *Config) { c.HLS = hlsDefaults })
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
					config = [][]byte{sc.config[0], sc.config[1], flvTag(8, 0, []byte("\xaf\x00\x11\x90"))} // 48 kHz
				}
				p = h.publish(config...)
				h.pace(p, sc.tags[:150])
				if list, err = h.playlist(hls.Reload{}, false); err != nil {
					t.Fatal(err)
				}
				maps, breaks := strings.Count(list, "EXT-X-MAP:"), strings.Count(list, "EXT-X-DISCONTINUITY\n")
				if after := hint(t, list); after.Epoch != next.Epoch || after.MSN <= next.MSN {
					t.Errorf("%s, and later %s", next, after)
				}
				if want := map[string]int{"same": 0, "other": 1}[codecs]; breaks != want || maps != 1+want {
					t.Errorf("%d discontinuities, %d maps\n%s", breaks, maps, list)
				}
				h.Close()
				h.done(p, nil)
			})
		})
	}
}

// Requests wait for a publisher, and are refused if there is none, or nothing for them.
func TestHLSRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHubTest(t, func(c *Config) { c.HLS, c.ViewerWait, c.MaxViewers = hlsDefaults, 10*time.Second, 1 })
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
			_, err := h.HLSMaster(ctx, "cam")
			got <- err
		}()
		synctest.Wait()
		if _, err := h.HLSMaster(t.Context(), "cam"); status(err) != http.StatusServiceUnavailable {
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
			_, err := h.HLSMaster(t.Context(), "cam")
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

// Before the first key frame only sound can be played. Parts are as short as ever when pictures come. Without sound a
// request waits, and gets 404 when the stream ends.
func TestHLSWithoutKeyFrames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHubTest(t, func(c *Config) { c.HLS, c.PublisherReturn = hlsDefaults, 0 })
		sc := newScript(1, 500, 300)
		p := h.publish(sc.config...)
		go func() { _, _ = h.playlist(hls.Reload{}, false) }()
		synctest.Wait()
		h.pace(p, sc.tags[2:])
		list, err := h.playlist(hls.Reload{}, false)
		if err != nil || !strings.Contains(list, "PART-TARGET=0.282") || !strings.Contains(list, "#EXTINF:") || strings.Contains(list, "INDEPENDENT") {
			t.Errorf("%v\n%s", err, list)
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
			t.Errorf("%v\n%s", err, list)
		}
		h.done(p, nil)
		h.Close()
	})
	synctest.Test(t, func(t *testing.T) {
		h := newHubTest(t, func(c *Config) { c.HLS, c.PublisherReturn = hlsDefaults, 0 })
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
		if len(got) > 0 {
			t.Errorf("an answer without a key frame: %v", <-got)
		}
		h.done(p, nil)
		var refused *refuse.Refusal
		if err := <-got; !errors.As(err, &refused) || refused.Status != http.StatusNotFound {
			t.Errorf("at the end: %v", err)
		}
		h.Close()
	})
}
