package server

import (
	"context"
	"io"
	"strconv"
	"strings"
	"sync"
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

// A stream loses its publisher, which comes back: the page says so, and its video goes on over the same connection.
func TestThePageGoesOnWithAStream(t *testing.T) {
	ctx, console := pagetest.Browser(t)
	f := serve(t, func(c *Config) { c.PublisherReturn, c.Latency = testTimeout, Defaults().Latency })
	play := func() (cut func()) {
		p, err := f.relay.Open("cam", "test")
		if err != nil {
			t.Fatal(err)
		}
		d, err := newDemo(p)
		if err != nil {
			t.Fatal(err)
		}
		on, stop := context.WithCancel(p.Context())
		var playing sync.WaitGroup
		playing.Go(func() { _ = d.play(on) })
		return func() {
			stop()
			playing.Wait()
			d.release()
			p.Close(io.ErrUnexpectedEOF)
			p.Done()
		}
	}
	cut := play()
	if err := chromedp.Do(ctx, chromedp.Navigate(f.URL("/"))); err != nil {
		t.Fatal(err)
	}
	const video = `document.querySelector('video')`
	pagetest.Await(t, ctx, video+`.videoWidth === 640 && `+video+`.currentTime > 1`)
	cut()
	pagetest.Await(t, ctx, `document.querySelector('#rows .codec').textContent.includes('waiting for its publisher')`)
	pagetest.Await(t, ctx, `document.querySelector('#stage-badge').textContent === 'Waiting for its publisher'`)
	from, err := chromedp.Run(ctx, chromedp.Evaluate[float64](video+`.currentTime`))
	if err != nil {
		t.Fatal(err)
	}
	cut = play()
	defer cut()
	pagetest.Await(t, ctx, video+`.currentTime > `+strconv.FormatFloat(from+3, 'f', -1, 64))
	pagetest.Await(t, ctx, `document.querySelector('#stage-badge').textContent === 'Live'`)
	pagetest.Await(t, ctx, `document.querySelector('#facts').textContent.includes('Publisher came backonce')`)
	if lines := console.Lines(); len(lines) > 0 {
		t.Errorf("the console shows:\n%s", strings.Join(lines, "\n"))
	}
	for name, want := range map[string]string{
		`millrace_viewers_total{path="writev"}`: "1", "millrace_publisher_returns_total": "1", "millrace_publisher_takeovers_total": "0",
		"millrace_streams_waiting": "0", "millrace_streams_total": "1",
	} {
		if got := f.metric(name); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	if waited, err := strconv.ParseFloat(f.metric("millrace_publisher_wait_seconds_total"), 64); err != nil || waited <= 0 {
		t.Errorf("streams have waited for %v s, %v", waited, err)
	}
}
