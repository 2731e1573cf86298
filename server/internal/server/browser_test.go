package server

import (
	"context"
	"io"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/millrace-io/millrace/internal/testkit/need"
	"github.com/millrace-io/millrace/server/internal/live"
	"github.com/millrace-io/millrace/server/internal/testkit/pagetest"
)

// The page of a server with a demo in a real browser: the stream is listed, its video plays, and
// the browser logs no errors.
func TestPageShowsTheDemo(t *testing.T) {
	ctx, console := pagetest.Browser(t)
	f := serve(t, func(c *Config) { c.Demo, c.Latency = true, Defaults().Latency })
	if err := chromedp.Do(ctx, chromedp.Navigate(f.URL("/"))); err != nil {
		t.Fatal(err)
	}
	pagetest.Await(t, ctx,
		`[...document.querySelectorAll('#rows .name')].some(e => e.textContent === 'demo')`)
	const video = `document.querySelector('video')`
	pagetest.Await(t, ctx, video+`.videoWidth === 640 && `+video+`.currentTime > 0`)
	from, err := chromedp.Run(ctx, chromedp.Evaluate[float64](video+`.currentTime`))
	if err != nil {
		t.Fatal(err)
	}
	pagetest.Await(t, ctx, video+`.currentTime > `+strconv.FormatFloat(from+2, 'f', -1, 64))
	// Audio and video are really decoded.
	pagetest.Await(t, ctx, video+`.getVideoPlaybackQuality().totalVideoFrames > 30`)
	if lines := console.Lines(); len(lines) > 0 {
		t.Errorf("the console shows:\n%s", strings.Join(lines, "\n"))
	}
	if n := f.metric(`millrace_viewers{path="writev"}`); n != "1" {
		t.Errorf("%s viewers, want 1", n)
	}
}

// With a --read-token the page works in a browser that has opened it with the token, and shows
// nothing in another browser.
func TestPageBehindAToken(t *testing.T) {
	ctx, console := pagetest.Browser(t)
	f := serve(t, func(c *Config) { c.Demo, c.ReadToken = true, "secret" })
	if err := chromedp.Do(ctx, chromedp.Navigate(f.URL("/?token=secret"))); err != nil {
		t.Fatal(err)
	}
	const video = `document.querySelector('video')`
	pagetest.Await(t, ctx, video+`.videoWidth === 640 && `+video+`.currentTime > 0`)
	// The addresses for other programs work without changes.
	const addresses = `[...document.querySelectorAll('#watch code')].map(e => e.textContent.match(/http[^"]*/)?.[0]).filter(Boolean).join(' ')`
	offered, err := chromedp.Run(ctx, chromedp.Evaluate[string](addresses))
	if err != nil || strings.Count(offered, " ") != 4 {
		t.Fatalf("the page offers %q, %v", offered, err)
	}
	for address := range strings.SplitSeq(offered, " ") {
		res, err := http.Get(address)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != http.StatusOK {
			t.Errorf("%s: %d, want 200", address, res.StatusCode)
		}
	}
	if err := chromedp.Do(ctx, chromedp.Navigate(f.URL("/"))); err != nil { // as from a link or a bookmark
		t.Fatal(err)
	}
	pagetest.Await(t, ctx, video+`.videoWidth === 640 && `+video+`.currentTime > 0`)
	pagetest.Await(t, ctx,
		`document.querySelector('#watch').textContent.includes('/live/demo.mp4?token=READ_TOKEN')`)
	if lines := console.Lines(); len(lines) > 0 {
		t.Errorf("the console shows:\n%s", strings.Join(lines, "\n"))
	}
}

// A page that is opened late in a long GOP starts far behind the live end. Its player catches up:
// it jumps, and then plays slightly faster.
func TestPageCatchesUp(t *testing.T) {
	need.Program(t, "ffmpeg")
	ctx, console := pagetest.Browser(t)
	f := serve(t, func(c *Config) { c.Latency = Defaults().Latency })
	on, stop := context.WithCancel(ctx)
	// One keyframe, at the beginning.
	cmd := exec.CommandContext(on, "ffmpeg", "-v", "error", "-re", "-f", "lavfi", "-i",
		"testsrc2=size=320x180:rate=25", "-f", "lavfi", "-i", "sine",
		"-c:v", "libx264", "-preset", "ultrafast", "-tune", "zerolatency", "-pix_fmt", "yuv420p",
		"-g", "100000", "-c:a", "aac",
		"-f", "flv", "-flvflags", "no_duration_filesize", "-method", "POST", f.URL("/live/cam"))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Wait() }()
	defer stop()
	f.published("cam", 1)
	eventually(t, "a long GOP", func() bool { return f.hub.Streams()[0].KeyInterval > 5 })
	if err := chromedp.Do(ctx, chromedp.Navigate(f.URL("/"))); err != nil {
		t.Fatal(err)
	}
	const video = `document.querySelector('video')`
	pagetest.Await(t, ctx, video+`.videoWidth === 320 && `+video+`.playbackRate > 1.1`)
	pagetest.Await(t, ctx, video+`.playbackRate <= 1.1`)
	eventually(t, "the player to be near", func() bool {
		at, err := chromedp.Run(ctx, chromedp.Evaluate[float64](video+`.currentTime`))
		if err != nil {
			t.Fatal(err)
		}
		return f.hub.Streams()[0].MP4Time-at < 2.5
	})
	if list := f.hub.Streams(); len(list) != 1 || list[0].BehindLive < 4 {
		t.Errorf("the server says %+v", list)
	}
	pagetest.Await(t, ctx, `document.querySelector('#facts').textContent.includes('which is long')`)
	f.Logged("keyframes are far apart", "publisher=127.0.0.1:")
	if lines := console.Lines(); len(lines) > 0 {
		t.Errorf("the console shows:\n%s", strings.Join(lines, "\n"))
	}
}

// The publisher of a stream disconnects and returns. The page says so, and its video continues over
// the same connection.
func TestPageContinuesAfterPublisherReturns(t *testing.T) {
	ctx, console := pagetest.Browser(t)
	f := serve(t, func(c *Config) {
		c.PublisherReturn, c.Latency = testTimeout, Defaults().Latency
	})
	play := func() (cut func()) {
		p, err := f.hub.Open("cam", "test", live.Terms{})
		if err != nil {
			t.Fatal(err)
		}
		d, err := newDemo(p)
		if err != nil {
			t.Fatal(err)
		}
		on, stop := context.WithCancel(p.Lifetime())
		var playing sync.WaitGroup
		playing.Go(func() { _ = d.play(on) })
		return func() {
			stop()
			playing.Wait()
			d.release()
			p.Close(io.ErrUnexpectedEOF)
			p.Answered()
		}
	}
	cut := play()
	if err := chromedp.Do(ctx, chromedp.Navigate(f.URL("/"))); err != nil {
		t.Fatal(err)
	}
	const video = `document.querySelector('video')`
	pagetest.Await(t, ctx, video+`.videoWidth === 640 && `+video+`.currentTime > 1`)
	cut()
	pagetest.Await(t, ctx,
		`document.querySelector('#rows .codec').textContent.includes('waiting for its publisher')`)
	pagetest.Await(t, ctx,
		`document.querySelector('#stage-badge').textContent === 'Waiting for its publisher'`)
	from, err := chromedp.Run(ctx, chromedp.Evaluate[float64](video+`.currentTime`))
	if err != nil {
		t.Fatal(err)
	}
	cut = play()
	defer cut()
	pagetest.Await(t, ctx, video+`.currentTime > `+strconv.FormatFloat(from+3, 'f', -1, 64))
	pagetest.Await(t, ctx, `document.querySelector('#stage-badge').textContent === 'Live'`)
	pagetest.Await(t, ctx,
		`document.querySelector('#facts').textContent.includes('Publisher came backonce')`)
	if lines := console.Lines(); len(lines) > 0 {
		t.Errorf("the console shows:\n%s", strings.Join(lines, "\n"))
	}
	for name, want := range map[string]string{
		`millrace_viewers_total{path="writev"}`: "1", "millrace_publisher_returns_total": "1",
		"millrace_publisher_takeovers_total": "0",
		"millrace_streams_waiting":           "0", "millrace_streams_total": "1",
	} {
		if got := f.metric(name); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	if waited, err := strconv.ParseFloat(f.metric("millrace_publisher_wait_seconds_total"),
		64); err != nil || waited <= 0 {
		t.Errorf("streams have waited for %v s, %v", waited, err)
	}
}

// While the server has its maximum number of viewers, the page says so. When a viewer leaves, the
// page plays MP4, and counts as one viewer.
func TestPageExplainsTooManyViewers(t *testing.T) {
	ctx, _ := pagetest.Browser(t)
	f := serve(t, func(c *Config) {
		c.Demo, c.Latency, c.MaxViewers = true, Defaults().Latency, 1
	})
	f.published("demo", 1)
	viewer, err := http.Get(f.URL("/live/demo.flv"))
	if err != nil {
		t.Fatal(err)
	}
	var reading sync.WaitGroup
	reading.Go(func() { _, _ = io.Copy(io.Discard, viewer.Body) })
	defer reading.Wait()
	defer viewer.Body.Close()
	if err := chromedp.Do(ctx, chromedp.Navigate(f.URL("/"))); err != nil {
		t.Fatal(err)
	}
	const message = `document.getElementById('message').textContent`
	pagetest.Await(t, ctx, message+`.startsWith('The server refuses to play this stream: ')`)
	pagetest.Await(t, ctx, message+`.endsWith('as many as --max-viewers allows')`)
	const refused = `millrace_refused_total{client="viewer",reason="limit"}`
	before := f.metric(refused)
	eventually(t, "another attempt", func() bool { return f.metric(refused) != before })
	pagetest.Await(t, ctx, message+`.startsWith('The server refuses')`)
	_ = viewer.Body.Close()
	const video = `document.querySelector('video')`
	pagetest.Await(t, ctx, video+`.videoWidth === 640 && `+video+`.currentTime > 0`)
	pagetest.Await(t, ctx, video+`.currentSrc.endsWith('.mp4') && `+message+` === ''`)
	const viewers = `millrace_viewers{path="writev"}`
	eventually(t, "one viewer", func() bool { return f.metric(viewers) == "1" })
}
