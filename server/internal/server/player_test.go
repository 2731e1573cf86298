package server

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/millrace-io/millrace/server/internal/testkit/pagetest"
)

// The page at /live/NAME/ is the same for all streams, and says which sites may show it.
func TestPlayerPage(t *testing.T) {
	f := serve(t, func(c *Config) { c.CORS = "https://example.org, http://localhost:3000" })
	if all := serve(t, nil).Get("/live/cam/").Header.Get("Content-Security-Policy"); strings.Contains(all,
		"frame-ancestors") {
		t.Errorf("with the default --cors, the policy is %q", all)
	}
	res := f.Get("/live/acme/cam/")
	policy := res.Header.Get("Content-Security-Policy")
	if res.Status != http.StatusOK || !strings.Contains(res.Body, "<video") ||
		!strings.HasSuffix(policy, "; frame-ancestors 'self' https://example.org http://localhost:3000") ||
		strings.Contains(policy, "unsafe") {
		t.Errorf("status %d, policy %q", res.Status, policy)
	}
	for path, want := range map[string]int{"/live/a b/": http.StatusBadRequest,
		"/live//": http.StatusBadRequest, "/live/cam.mp4/": http.StatusBadRequest,
		"/live/": http.StatusBadRequest} {
		if res := f.Get(strings.ReplaceAll(path, " ", "%20")); res.Status != want {
			t.Errorf("%s: %d, want %d", path, res.Status, want)
		}
	}
	if status := f.status(http.MethodPost, "/live/cam/"); status != http.StatusBadRequest {
		t.Errorf("a publisher gets %d, want 400", status)
	}
}

// status returns the status of the response to a request without a body.
func (f *fixture) status(method, path string) int {
	f.T.Helper()
	req, err := http.NewRequestWithContext(f.T.Context(), method, f.URL(path), nil)
	if err != nil {
		f.T.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		f.T.Fatal(err)
	}
	_ = res.Body.Close()
	return res.StatusCode
}

const (
	playerSays  = `document.querySelector('#message').textContent === '%s'`
	playerPlays = `document.querySelector('video').currentTime > 0.5 && ` +
		`document.querySelector('#message').textContent === ''`
)

// The player waits for the stream, plays it, says when it has ended, and plays it when it returns.
func TestPlayerInABrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("plays in real time")
	}
	ctx, _ := pagetest.Browser(t)
	f := serve(t, func(c *Config) { c.ViewerWait = 0 })
	if err := chromedp.Do(ctx, chromedp.Navigate(f.URL("/live/cam/"))); err != nil {
		t.Fatal(err)
	}
	pagetest.Await(t, ctx, fmt.Sprintf(playerSays, "Waiting for the stream"))
	for range 2 {
		p := f.Publisher("cam")
		begin := time.Now()
		for i, tag := range sampleReel(8) {
			time.Sleep(time.Until(begin.Add(time.Duration(tagTime(tag)) * time.Millisecond)))
			if i == 0 {
				tag = reel{tag}.bytes(5)
			}
			p.Send(tag)
		}
		pagetest.Await(t, ctx, fmt.Sprintf(playerSays, "Waiting for the publisher"))
		pagetest.Await(t, ctx, `document.querySelector('video').currentTime > 0.5`)
		p.End()
		pagetest.Await(t, ctx, fmt.Sprintf(playerSays, "The stream has ended"))
	}
}

// With the token in its address, the player gets the stream, and catches up after a pause. Without
// it, the server refuses the page.
func TestPlayerWithToken(t *testing.T) {
	ctx, _ := pagetest.Browser(t)
	f := serve(t, func(c *Config) { c.Demo, c.ReadToken = true, "a secret" })
	if status := f.Get("/live/demo/").Status; status != http.StatusUnauthorized {
		t.Errorf("without the token: %d, want 401", status)
	}
	if err := chromedp.Do(ctx, chromedp.Navigate(f.URL("/live/demo/?token=a+secret"))); err != nil {
		t.Fatal(err)
	}
	pagetest.Await(t, ctx, playerPlays)
	const behind = `(v => v.buffered.end(v.buffered.length - 1) - v.currentTime)` +
		`(document.querySelector('video'))`
	pagetest.Await(t, ctx, `(document.querySelector('video').pause(), true)`)
	pagetest.Await(t, ctx, behind+` > 2.5`)
	pagetest.Await(t, ctx, `(document.querySelector('video').play(), true)`)
	pagetest.Await(t, ctx, behind+` < 2`)
}

// The player finds the same codecs in an MP4 file as the playlist of HLS names.
func TestPlayerKnowsCodecs(t *testing.T) {
	ctx, _ := pagetest.Browser(t)
	hevc, _ := hevcFilm(t)
	f := serve(t, keepAll)
	if err := chromedp.Do(ctx, chromedp.Navigate(f.URL("/live/absent/"))); err != nil {
		t.Fatal(err)
	}
	for name, film := range map[string]reel{"avc": sampleReel(6).only(videoTag), "hevc": hevc} {
		p := f.Publisher(name)
		p.Send(film.bytes(1))
		list := f.Get("/live/" + name + "/index.m3u8").Body
		_, codecs, _ := strings.Cut(list, "CODECS=")
		codecs, _, ok := strings.Cut(codecs, ",")
		if !ok {
			t.Fatalf("%s: no codecs in %s", name, list)
		}
		got, err := chromedp.Run(ctx, chromedp.Evaluate[string](fmt.Sprintf(
			`fetch('/live/%s/poster.mp4').then((a) => a.arrayBuffer()).then((b) => typeOf(new Uint8Array(b)))`,
			name), chromedp.EvalAwaitPromise))
		if want := "video/mp4; codecs=" + codecs; err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", name, got, err, want)
		}
		p.End()
	}
}

// A page of another site shows the player in a frame only if --cors has the site, as it has by
// default.
func TestPlayerInAFrame(t *testing.T) {
	ctx, _ := pagetest.Browser(t)
	for _, sites := range []string{"https://example.org", Defaults().CORS} {
		f := serve(t, func(c *Config) { c.Demo, c.CORS = true, sites })
		site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = fmt.Fprintf(w, `<iframe src="%s" allow="autoplay"></iframe>`, f.URL("/live/demo/"))
		}))
		if err := chromedp.Do(ctx, chromedp.Navigate(site.URL)); err != nil {
			t.Fatal(err)
		}
		if sites == "*" {
			eventually(t, "a viewer", func() bool { return f.hub.Viewers() == 1 })
		} else if n := f.hub.Viewers(); n != 0 {
			t.Errorf("the frame of another site has %d viewers, want none", n)
		}
		site.Close()
	}
}
