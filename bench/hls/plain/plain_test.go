package plain

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/bench/httpflv"
	"github.com/millrace-io/millrace/bench/measure/benchtest"
	"github.com/millrace-io/millrace/internal/load"
)

func TestMain(m *testing.M) { benchtest.Main(m) }

// A fixture is a server with a publisher that sends as fast as the server reads.
type fixture struct {
	*testing.T
	*Server
	url   string
	body  *io.PipeWriter
	ended chan struct{} // closed when the server has answered the publisher
	synth *load.Synth
}

const testRate = 400_000

func newFixture(t *testing.T) *fixture {
	f := &fixture{T: t, Server: new(Server), ended: make(chan struct{}),
		synth: load.NewSynth(0, testRate, 2*time.Second)}
	srv := httptest.NewServer(f.Server)
	t.Cleanup(srv.Close)
	f.url = srv.URL + "/live/x"
	body, w := io.Pipe()
	f.body = w
	go func() {
		defer close(f.ended)
		if res, err := http.Post(f.url, "video/x-flv", body); err == nil {
			res.Body.Close()
		}
	}()
	t.Cleanup(f.end)
	head := []byte(httpflv.Header)
	for _, h := range f.synth.Headers(testRate) {
		head = httpflv.AppendTag(head, h)
	}
	if _, err := w.Write(head); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *fixture) end() {
	f.body.Close()
	<-f.ended
}

// publish sends all tags before a time.
func (f *fixture) publish(until time.Duration) {
	f.Helper()
	for f.synth.Due() < until {
		if _, err := f.body.Write(httpflv.AppendTag(nil, f.synth.Next(time.Now()))); err != nil {
			f.Fatal(err)
		}
	}
}

func (f *fixture) get(file string, status int) string {
	f.Helper()
	res, err := http.Get(f.url + "/" + file)
	if err != nil {
		f.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != status || status == 200 &&
		res.ContentLength != int64(len(body)) {
		f.Fatalf("%s: status %d, length %d of %d, %v", file, res.StatusCode, res.ContentLength,
			len(body), err)
	}
	return string(body)
}

// media waits for part 0 of segment msn, and returns the playlist.
func (f *fixture) media(msn int) string {
	f.Helper()
	return f.get("media.m3u8?_HLS_msn="+strconv.Itoa(msn)+"&_HLS_part=0", 200)
}

var (
	partLine = regexp.MustCompile(
		`(?m)^#EXT-X-PART:DURATION=0.200,URI="(part\d+\.mp4)"(,INDEPENDENT=YES)?$`)
	infLine  = regexp.MustCompile(`(?m)^#EXTINF:2.000,\n(seg\d+\.mp4)$`)
	hintLine = regexp.MustCompile(`(?m)^#EXT-X-PRELOAD-HINT:TYPE=PART,URI="(part\d+\.mp4)"$`)
)

// awaitParts waits until the server has made n parts of six video frames each.
func (f *fixture) awaitParts(n int64) {
	f.Helper()
	for f.parts.Load() < n { // the server has no other sign of the first parts
		select {
		case <-f.ended:
			f.Fatal("the publisher was refused")
		case <-time.After(time.Millisecond):
		}
	}
}

func TestPlaylist(t *testing.T) {
	f := newFixture(t)
	f.publish(4500 * time.Millisecond)
	f.awaitParts(22)
	if text := f.get("index.m3u8", 200); !strings.Contains(text, "\nmedia.m3u8\n") {
		t.Errorf("multivariant playlist:\n%s", text)
	}
	text := f.media(2)
	segments, parts := infLine.FindAllStringSubmatch(text, -1),
		partLine.FindAllStringSubmatch(text, -1)
	if len(segments) != 2 || len(parts) != 22 || strings.Count(text, "INDEPENDENT") != 3 {
		t.Fatalf("%d segments, %d parts:\n%s", len(segments), len(parts), text)
	}
	if init := f.get(initFile, 200); init[4:8] != "ftyp" {
		t.Errorf("initialization segment %.20q", init)
	}
	for i, seg := range segments {
		var whole bytes.Buffer
		for _, p := range parts[10*i : 10*i+10] {
			whole.WriteString(f.get(p[1], 200))
		}
		if got := f.get(seg[1], 200); got != whole.String() {
			t.Errorf("%s of %d bytes is not its parts, of %d", seg[1], len(got), whole.Len())
		}
	}
	if rendered := f.rendered.Load(); rendered != 1 {
		t.Errorf("%d playlists rendered", rendered)
	}
}

// TestWaiting requests the next part, and a part that never becomes available.
func TestWaiting(t *testing.T) {
	f := newFixture(t)
	f.publish(2200 * time.Millisecond)
	f.awaitParts(10)
	hint := hintLine.FindStringSubmatch(f.get("media.m3u8", 200)) // waits for the first segment
	if hint == nil {
		t.Fatal("no hint")
	}
	const waiting = 3
	answers := make(chan string)
	for i := range 2 * waiting {
		go func() {
			path := hint[1]
			if i < waiting {
				path = "media.m3u8?_HLS_msn=1&_HLS_part=2"
			}
			res, err := http.Get(f.url + "/" + path)
			if err != nil {
				answers <- err.Error()
				return
			}
			defer res.Body.Close()
			body, _ := io.ReadAll(res.Body)
			answers <- string(body)
		}()
	}
	f.publish(3 * time.Second)
	playlists, parts := 0, 0
	for range 2 * waiting {
		switch a := <-answers; {
		case strings.HasPrefix(a, "#EXTM3U"):
			playlists++
			if n := len(partLine.FindAllString(a, -1)); n < 13 {
				t.Errorf("%d parts, want 13 or more:\n%s", n, a)
			}
		case len(a) > 8 && a[4:8] == "moof":
			parts++
		default:
			t.Errorf("an answer that is not a part: %.60q", a)
		}
	}
	if playlists != waiting || parts != waiting || f.rendered.Load() != 1+waiting {
		t.Errorf("%d playlists and %d parts came; %d were rendered", playlists, parts,
			f.rendered.Load())
	}
	f.media(0) // part 0 of a complete segment
	for _, query := range []string{"_HLS_msn=3", "_HLS_msn=x", "_HLS_msn=1&_HLS_part=-1"} {
		f.get("media.m3u8?"+query, 400)
	}
	f.get("seg9.mp4", 404)
	f.get("part99.mp4", 404)
	go func() {
		res, err := http.Get(f.url + "/media.m3u8?_HLS_msn=2")
		if err != nil {
			answers <- err.Error()
			return
		}
		res.Body.Close()
		answers <- res.Status
	}()
	f.end()
	if a := <-answers; a != "404 Not Found" {
		t.Errorf("at the end of the stream: %s", a)
	}
}

func TestWindow(t *testing.T) {
	f := newFixture(t)
	f.publish(20500 * time.Millisecond)
	f.awaitParts(102)
	text := f.media(10)
	segments := infLine.FindAllStringSubmatch(text, -1)
	if len(segments) != maxSegments || segments[0][1] != "seg3.mp4" ||
		!strings.Contains(text, "#EXT-X-MEDIA-SEQUENCE:3\n") {
		t.Errorf("%d segments, want the newest of the window:\n%s", len(segments), text)
	}
	f.get("seg2.mp4", 404)
	f.get("part0.mp4", 404)
	delta := f.get("media.m3u8?_HLS_skip=YES", 200)
	if !strings.Contains(delta, "#EXT-X-SKIP:SKIPPED-SEGMENTS=1\n") ||
		len(infLine.FindAllString(delta, -1)) != maxSegments-1 ||
		strings.Contains(delta, "EXT-X-MAP") {
		t.Errorf("the delta skips another number of segments:\n%s", delta)
	}
	f.get("media.m3u8?_HLS_msn=1", 400)
}

func TestPublishRefused(t *testing.T) {
	f := newFixture(t)
	f.publish(time.Second)
	f.awaitParts(4)
	for name, url := range map[string]string{"a second publisher": f.url, "no FLV": f.url + "2"} {
		res, err := http.Post(url, "video/x-flv", strings.NewReader("RIFF"))
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %s, want 400", name, res.Status)
		}
	}
	res, err := http.Get(strings.TrimSuffix(f.url, "/live/x") + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if text, _ := io.ReadAll(res.Body); !strings.Contains(string(text),
		"plain_playlists_rendered_total 0\n") {
		t.Errorf("want no playlist rendered, the metrics are\n%s", text)
	}
}
