package server

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/millrace-io/millrace/internal/testkit/need"
	"github.com/millrace-io/millrace/server/internal/testkit/pagetest"
)

// The poster of a stream is an MP4 file with its newest keyframe.
func TestPoster(t *testing.T) {
	need.Program(t, "ffprobe")
	f := serve(t, func(c *Config) { c.ViewerWait = 0 })
	p := f.Publisher("cam")
	film := sampleReel(5)
	p.Send(film.bytes(5))
	size := 0
	var key []byte // the newest keyframe
	for _, tag := range film {
		size += len(tag)
		if isKeyTag(tag) {
			key = tag
		}
	}
	eventually(t, "all frames", func() bool { return f.hub.Stats().BytesIn >= int64(size) })
	res := f.Get("/live/cam/poster.mp4")
	if res.Status != http.StatusOK || res.Header.Get("Content-Type") != "video/mp4" ||
		res.Header.Get("Cache-Control") != "public, max-age=1" {
		t.Fatalf("the poster has status %d and headers %v", res.Status, res.Header)
	}
	// The data of the keyframe are in the file, after the headers of its FLV tag.
	if data := key[16 : len(key)-4]; !strings.Contains(res.Body, string(data)) {
		t.Error("the poster does not have the newest keyframe")
	}
	file := filepath.Join(t.TempDir(), "poster.mp4")
	if err := os.WriteFile(file, []byte(res.Body), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("ffprobe", "-v", "error", "-count_frames", "-show_entries",
		"stream=codec_name,width,nb_read_frames", "-of", "csv=p=0", file).CombinedOutput()
	if got := strings.TrimSpace(string(out)); err != nil || got != "h264,640,1" {
		t.Errorf("ffprobe: %v, %q, want one frame", err, got)
	}
	p.End()
}

// Streams without a picture have no poster, and the answer says why.
func TestPosterIsMissing(t *testing.T) {
	f := serve(t, func(c *Config) { c.ViewerWait = 0 })
	sound := f.Publisher("sound")
	sound.Send(sampleReel(2).only(8).bytes(4))
	f.published("sound", 1000)
	raw := f.Publisher("raw")
	raw.Send([]byte(strings.Repeat("not FLV", 1000)))
	f.published("raw", 7000)
	for path, want := range map[string]struct {
		status int
		says   string
	}{
		"/live/absent/poster.mp4": {http.StatusNotFound, "no publisher"},
		"/live/sound/poster.mp4":  {http.StatusNotFound, "no picture"},
		"/live/raw/poster.mp4":    {http.StatusNotAcceptable, "not FLV"},
		"/live/a/poster":          {http.StatusBadRequest, "the poster of a stream"},
	} {
		if res := f.Get(path); res.Status != want.status || !strings.Contains(res.Body, want.says) {
			t.Errorf("%s: %d %q, want %d and %q", path, res.Status, res.Body, want.status, want.says)
		}
	}
	sound.End()
	raw.End()
}

// The page's list shows the posters of the streams that are on the screen.
func TestPosterOnThePage(t *testing.T) {
	ctx, _ := pagetest.Browser(t)
	f := serve(t, func(c *Config) { c.Demo = true })
	if err := chromedp.Do(ctx, chromedp.Navigate(f.URL("/"))); err != nil {
		t.Fatal(err)
	}
	pagetest.Await(t, ctx, `(document.querySelector('#rows tr')?.scrollIntoView(), true) &&
		document.querySelector('.poster video')?.videoWidth === 640`)
}
