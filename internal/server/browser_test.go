package server

import (
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/millrace-io/millrace/internal/server/page/pagetest"
)

// The page of a server that plays its demo, in a real browser: the stream is listed, its picture moves, and the browser
// has nothing to complain about.
func TestThePageShowsTheDemo(t *testing.T) {
	ctx, console := pagetest.Browser(t)
	f := serve(t, func(c *Config) { c.Demo, c.Latency = true, Defaults().Latency })
	if err := chromedp.Do(ctx, chromedp.Navigate(f.URL("/"))); err != nil {
		t.Fatal(err)
	}
	pagetest.Await(t, ctx, `[...document.querySelectorAll('#rows .name')].some(e => e.textContent === 'demo')`)
	const video = `document.querySelector('video')`
	pagetest.Await(t, ctx, video+`.videoWidth === 640 && `+video+`.currentTime > 0`)
	from, err := chromedp.Run(ctx, chromedp.Evaluate[float64](video+`.currentTime`))
	if err != nil {
		t.Fatal(err)
	}
	pagetest.Await(t, ctx, video+`.currentTime > `+strconv.FormatFloat(from+2, 'f', -1, 64))
	// What is heard and seen is decoded, not just waited for.
	pagetest.Await(t, ctx, video+`.getVideoPlaybackQuality().totalVideoFrames > 30`)
	if lines := console.Lines(); len(lines) > 0 {
		t.Errorf("the console shows:\n%s", strings.Join(lines, "\n"))
	}
	if n := f.metric(`millrace_viewers{path="writev"}`); n != "1" {
		t.Errorf("%s viewers", n)
	}
}

// With a --read-token the page works in a browser that has opened it with the token, and shows nothing to another.
func TestThePageBehindAToken(t *testing.T) {
	ctx, console := pagetest.Browser(t)
	f := serve(t, func(c *Config) { c.Demo, c.ReadToken = true, "secret" })
	if err := chromedp.Do(ctx, chromedp.Navigate(f.URL("/?token=secret"))); err != nil {
		t.Fatal(err)
	}
	const video = `document.querySelector('video')`
	pagetest.Await(t, ctx, video+`.videoWidth === 640 && `+video+`.currentTime > 0`)
	if err := chromedp.Do(ctx, chromedp.Navigate(f.URL("/"))); err != nil { // a link or a bookmark
		t.Fatal(err)
	}
	pagetest.Await(t, ctx, video+`.videoWidth === 640 && `+video+`.currentTime > 0`)
	if lines := console.Lines(); len(lines) > 0 {
		t.Errorf("the console shows:\n%s", strings.Join(lines, "\n"))
	}
}
