package page

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/millrace-io/millrace/internal/server/page/pagetest"
)

const (
	nothing = `{"server": {"version": "v1", "uptime_seconds": 1, "publish": "open", "loopback": true}, "streams": []}`
	token   = `{"server": {"publish": "token", "read": "token", "loopback": false, "files": "listed", "blobs": true, "rtmp": 1936}, "streams": []}`
	open    = `{"server": {"publish": "open", "loopback": true, "rtmp": 1935, "rtmps": 4443, "rtmp_loopback": true}, "streams": []}`
	unsafe  = `{"server": {"publish": "open", "loopback": true, "rtmp": 1935}, "streams": []}`
	near    = `{"server": {"publish": "off", "loopback": false, "rtmp": 1935, "rtmp_loopback": true}, "streams": []}`
	off     = `{"server": {"publish": "off", "loopback": false, "files": "named"}, "streams": []}`
	private = `{"server": {"read": "token", "streams": 1, "rtmp": 1935}, "streams": [{"name": "site/cam", "format": "flv", "video": "h264",
		"viewers": 9, "viewers_mp4": 4, "viewers_rtmp": 2, "viewers_hls": 7}]}`
	nodes = `{"server": {"node": "http://10.0.0.1:8080", "streams": 2, "viewers": 5}, "streams": [
			{"name": "cam", "format": "flv", "video": "h264", "epoch": 7, "owner": "http://10.0.0.2:8080", "viewers": 5},
			{"name": "here", "format": "flv", "epoch": 9, "viewers": 4, "edges": ["a", "b", "c", "d"]}],
		"nodes": [
			{"node": "http://10.0.0.2:8080", "server": {}, "streams": [
				{"name": "cam", "format": "flv", "video": "h264", "epoch": 7, "viewers": 4, "edges": ["http://10.0.0.1:8080", "http://10.0.0.3:8080"]},
				{"name": "here", "format": "flv", "owner": "http://10.0.0.1:8080", "viewers": 2},
				{"name": "far", "format": "flv", "epoch": 8, "viewers": 1}]},
			{"node": "http://10.0.0.3:8080", "server": {}, "streams": [
				{"name": "cam", "format": "flv", "owner": "http://10.0.0.2:8080", "viewers": 5},
				{"name": "here", "format": "flv", "owner": "http://10.0.0.1:8080", "viewers": 1}]},
			{"node": "http://10.0.0.4:8080", "streams": [{"name": "here", "owner": "http://10.0.0.1:8080"}]},
			{"node": "http://10.0.0.5:8080", "streams": [{"name": "here", "owner": "http://10.0.0.1:8080"}]},
			{"node": "http://10.0.0.6:8080", "error": "it does not answer", "streams": []}]}`
	silent = `{"server": {}, "streams": [{"name": "cam", "format": "flv", "video": "h264", "bits_per_second": 0, "silent_seconds": 7.9,
			"behind_live_seconds_max": 9.7, "key_interval_seconds": 10},
		{"name": "gone", "format": "flv", "video": "h264", "waiting_seconds": 3, "silent_seconds": 3},
		{"name": "well", "format": "flv", "video": "h264", "silent_seconds": 0.04}]}`
	hostile = `{"server": {"version": "<b>v1</b>", "uptime_seconds": 1, "streams": 1, "viewers": 1500, "operator": true}, "streams": [
		{"name": "<img src=x onerror=alert(1)>", "format": "bytes", "publisher": "<i>me</i>", "uptime_seconds": 3700,
		 "bits_per_second": 2150000, "viewers": 1500, "lag_seconds_max": 0.05, "frames_lost": 12, "groups_cut": 3, "stalled": 2}]}`
)

// serve answers with the page and with what streams holds, by a server that start starts; "" is a server that cannot answer.
func serve(t *testing.T, start func(http.Handler) *httptest.Server, streams *atomic.Value) string {
	mux := http.NewServeMux()
	mux.Handle("/", Handler())
	mux.HandleFunc("/api/streams", func(w http.ResponseWriter, r *http.Request) {
		if answer := streams.Load().(string); answer != "" {
			_, _ = io.WriteString(w, answer)
			return
		}
		http.Error(w, "no", http.StatusServiceUnavailable)
	})
	server := start(mux)
	t.Cleanup(server.Close)
	return server.URL
}

// The page when nothing is live, when a stream has a hostile name, and when the server is gone and comes back.
func TestPageInABrowser(t *testing.T) {
	ctx, console := pagetest.Browser(t)
	var streams atomic.Value
	streams.Store(nothing)
	if err := chromedp.Do(ctx, chromedp.Navigate(serve(t, httptest.NewServer, &streams))); err != nil {
		t.Fatal(err)
	}
	const shown = `document.getElementById('%').checkVisibility()`
	visible := func(id string) string { return strings.ReplaceAll(shown, "%", id) }

	pagetest.Await(t, ctx, visible("empty")+" && "+visible("publish")+" && !"+visible("stage"))
	const commands = `document.querySelector('#commands').textContent`
	const rtmp = `[...document.querySelectorAll('#rtmp code')].map(e => e.textContent).join(' ')`
	pagetest.Await(t, ctx, commands+`.includes('-send_expect_100 1 -method POST ' + location.origin + '/live/camera')`)
	pagetest.Await(t, ctx, `document.querySelector('#publish-note').textContent.includes('on the machine that the server runs on')`)
	pagetest.Await(t, ctx, "!"+visible("files")+" && !"+visible("files-named")+" && !"+visible("blobs"))
	pagetest.Await(t, ctx, rtmp+" === '' && !"+visible("rtmp-title")+" && !"+visible("commands-title"))
	checkNames(t, ctx)

	// What OBS needs, where there is RTMP and this browser's machine may publish by it.
	streams.Store(open)
	pagetest.Await(t, ctx, rtmp+` === 'rtmp://127.0.0.1/live camera' && `+visible("rtmp-title")+" && "+visible("commands-title"))
	pagetest.Await(t, ctx, `document.querySelector('#publish-note').textContent.startsWith('With OBS or ffmpeg')`)
	pagetest.Await(t, ctx, `document.querySelectorAll('#rtmp .copy').length === 2`)
	streams.Store(unsafe)
	pagetest.Await(t, ctx, rtmp+` === '' && document.querySelector('#publish-hint').textContent.startsWith('RTMP takes no streams')`)
	streams.Store(near)
	pagetest.Await(t, ctx, rtmp+` === 'rtmp://127.0.0.1/live camera' && `+commands+` === '' && `+visible("name-field"))
	pagetest.Await(t, ctx, visible("rtmp-title")+" && !"+visible("commands-title")+
		` && document.querySelector('#publish-hint').textContent.startsWith('Only RTMP takes streams here. Publishing is off')`)

	streams.Store(token)
	pagetest.Await(t, ctx, commands+`.includes('-headers "Authorization: Bearer TOKEN" -send_expect_100 1')`)
	pagetest.Await(t, ctx, `document.querySelector('#publish-note').textContent.includes('from any machine')`)
	pagetest.Await(t, ctx, rtmp+` === 'rtmp://127.0.0.1:1936/live camera?token=TOKEN'`)
	pagetest.Await(t, ctx, visible("files")+" && !"+visible("files-named")+" && "+visible("blobs"))
	streams.Store(off)
	pagetest.Await(t, ctx, "!"+visible("files")+" && "+visible("files-named"))
	pagetest.Await(t, ctx, `document.querySelector('#publish-hint').textContent.startsWith('Publishing is off') && `+commands+` === ''`)
	pagetest.Await(t, ctx, "!"+visible("name-field")+" && !"+visible("empty-how")+" && "+rtmp+" === ''")

	streams.Store(hostile)
	pagetest.Await(t, ctx, visible("stage")+" && !"+visible("empty"))
	for selector, want := range map[string]string{
		"#stage-name":    "<img src=x onerror=alert(1)>",
		"#rows .name":    "<img src=x onerror=alert(1)>",
		"#rows .rate":    "2.15 Mbit/s",
		"#rows .viewers": "1\u202f5002 stalled",
		"#rows .lag":     "50 ms12 lost",
		"#rows td.age":   "1 h 1 min",
		"#version":       "Millrace <b>v1</b>",

		"#facts div:nth-child(8) dd": "0 B; 3 groups of pictures were too long",
		"#message":                   "This stream is not video that a browser plays. It is relayed byte for byte.",
	} {
		got, err := chromedp.Run(ctx, chromedp.TextContent(chromedp.CSS(selector)))
		if err != nil || got != want {
			t.Errorf("%s is %q (%v), want %q", selector, got, err, want)
		}
	}
	if lines := console.Lines(); len(lines) > 0 {
		t.Errorf("the console shows:\n%s", strings.Join(lines, "\n"))
	}

	// Where reading needs a token, the addresses for other programs have a place for it, and the page says what to put there.
	streams.Store(private)
	const watch = `document.querySelector('#watch').textContent`
	pagetest.Await(t, ctx, watch+`.includes('ffplay -fflags nobuffer "' + location.origin + '/live/site/cam.flv?token=READ_TOKEN"')`)
	pagetest.Await(t, ctx, watch+`.includes('/live/site/cam.mp4?token=READ_TOKEN')`)
	pagetest.Await(t, ctx, watch+`.includes('/live/site/cam/index.m3u8?token=READ_TOKEN')`)
	pagetest.Await(t, ctx, watch+`.includes('rtmp://127.0.0.1/live/site/cam?token=READ_TOKEN')`)
	pagetest.Await(t, ctx, `document.querySelector('#facts').textContent.includes('9, 4 as MP4, 2 by RTMP, 7 more by HLS')`)
	pagetest.Await(t, ctx, `document.querySelector('#watch-hint').textContent.includes('--read-token')`)

	// A publisher that sends nothing.
	streams.Store(silent)
	pagetest.Await(t, ctx, `document.querySelector('#stage-badge').textContent === 'Live, silent for 7 s'`)
	pagetest.Await(t, ctx, `document.querySelector('#facts').textContent.includes('Furthest from live9.7 sKey framesevery 10.0 s, which is long: viewers begin')`)
	pagetest.Await(t, ctx, `[...document.querySelectorAll('#rows .codec')].map(e => e.textContent).join('; ') ===
		'h264 · silent for 7 s; h264 · waiting for its publisher; h264'`)

	// The streams of all nodes: where each is, and the viewers of all nodes without the nodes among them.
	streams.Store(nodes)
	const where = `[...document.querySelectorAll('#rows tr')].map(e => e.querySelector('.name').textContent + ': ' + e.querySelector('.where').textContent).join('; ')`
	pagetest.Await(t, ctx, where+` === 'cam: at 10.0.0.2:8080, pulled by 10.0.0.1:8080, 10.0.0.3:8080; far: at 10.0.0.2:8080; here: at 10.0.0.1:8080, pulled by 4 nodes'`)
	pagetest.Await(t, ctx, `[...document.querySelectorAll('#rows .viewers span')].map(e => e.textContent).join(' ') === '12 1 3'`)
	pagetest.Await(t, ctx, `document.querySelector('#nodes').textContent === '5 of 6 nodes answer'`)
	pagetest.Await(t, ctx, `document.querySelector('[data-total=streams]').textContent === '3' && document.querySelector('[data-total=viewers]').textContent === '16'`)
	pagetest.Await(t, ctx, `document.querySelector('#facts').textContent.includes('Published at10.0.0.2:8080Pulled by10.0.0.1:8080, 10.0.0.3:8080')`)
	pagetest.Await(t, ctx, `document.querySelector('#facts').textContent.startsWith('Videoh264')`)

	streams.Store("")
	pagetest.Await(t, ctx, visible("banner")+` && document.querySelector('#banner p').textContent.startsWith('The server answers 503')`)
	streams.Store(nothing)
	pagetest.Await(t, ctx, "!"+visible("banner")+" && "+visible("empty"))
}

// A stream that no browser decodes says so, and offers the addresses that work.
func TestPageOfAnUndecodableStream(t *testing.T) {
	ctx, _ := pagetest.Browser(t)
	var streams atomic.Value
	streams.Store(`{"server": {}, "streams": [{"name": "old", "format": "flv", "video": "h263", "audio": "mp3", "left_out": "all"}]}`)
	if err := chromedp.Do(ctx, chromedp.Navigate(serve(t, httptest.NewServer, &streams))); err != nil {
		t.Fatal(err)
	}
	const watch = `document.querySelector('#watch').textContent`
	pagetest.Await(t, ctx, `document.querySelector('#message').textContent.startsWith('Browsers cannot play this stream: h263 and mp3')`)
	pagetest.Await(t, ctx, watch+`.includes('/live/old.flv') && !`+watch+`.includes('.mp4') && !`+watch+`.includes('.m3u8')`)
	streams.Store(`{"server": {}, "streams": [{"name": "old", "format": "flv", "video": "h263", "audio": "aac", "left_out": "video"}]}`)
	pagetest.Await(t, ctx, watch+`.includes('.mp4') && document.querySelector('#watch-hint').textContent.startsWith('Browsers get the audio alone: h263')`)

	// What the browser itself fails at, such as a codec that it lacks, stays on the screen between the attempts.
	const message = `document.querySelector('#message').textContent`
	streams.Store(`{"server": {}, "streams": [{"name": "old", "format": "flv", "video": "h265", "audio": "aac"}]}`)
	pagetest.Await(t, ctx, message+`.startsWith('This browser cannot play the stream')`)
	for _, event := range []string{"pause", "waiting"} {
		got, err := chromedp.Run(ctx, chromedp.Evaluate[string](`(() => {
			document.getElementById('video').dispatchEvent(new Event('`+event+`'));
			return `+message+`;
		})()`))
		if err != nil || !strings.HasPrefix(got, "This browser cannot") {
			t.Errorf("after %s: %q, %v", event, got, err)
		}
	}
}

// The page fits a phone, and figures of the operator are not for viewers.
func TestPageOnAPhone(t *testing.T) {
	ctx, _ := pagetest.Browser(t)
	var streams atomic.Value
	const stream = `"streams": [{"name": "a/rather-long-name-of-a-stream-in-parts/camera-12", "format": "flv", "video": "h264 1920x1080",
		"audio": "aac", "memory_bytes": 5, "viewers": 123456, "lag_seconds_max": 12.5, "frames_lost": 123, "stalled": 12, "bits_per_second": 123456789}]}`
	streams.Store(`{"server": {"publish": "token", "rtmp": 1936, "memory_bytes": 77, "operator": true, "files": "listed", "blobs": true}, ` + stream)
	at := serve(t, httptest.NewServer, &streams)
	const figures = `document.querySelector('#facts').textContent.includes('Memory') && ` +
		`document.querySelector('[data-total=memory]').checkVisibility() && document.querySelector('a[href=metrics]').checkVisibility()`
	if err := chromedp.Do(ctx, chromedp.Navigate(at)); err != nil {
		t.Fatal(err)
	}
	pagetest.Await(t, ctx, figures)
	for _, width := range []int64{320, 360, 390, 700, 1000} {
		if err := chromedp.Do(ctx, chromedp.EmulateViewport(width, 800)); err != nil {
			t.Fatal(err)
		}
		got, err := chromedp.Run(ctx, chromedp.Evaluate[string](`(() => {
			const wide = document.documentElement.clientWidth;
			const over = [...document.querySelectorAll('body *')].filter(e => e.checkVisibility() &&
				e.getBoundingClientRect().right > wide + 1 && !e.closest('code, .unseen, .skip'));
			return document.documentElement.scrollWidth > wide ? over.map(e => e.tagName + ' ' + e.id + e.className).join(', ') || '?' : '';
		})()`))
		if err != nil || got != "" {
			t.Errorf("at %d px the page scrolls sideways: %v, %v", width, got, err)
		}
	}
	streams.Store(`{"server": {"memory_bytes": 77, "operator": false}, ` + stream)
	pagetest.Await(t, ctx, `!document.querySelector('#facts').textContent.includes('Memory') && `+
		`!document.querySelector('[data-total=memory]').checkVisibility() && !document.querySelector('a[href=metrics]').checkVisibility()`)
}

// A page that was loaded over TLS tells encoders to use TLS, if there is RTMP over it.
func TestPageOverTLS(t *testing.T) {
	ctx, _ := pagetest.Browser(t)
	var streams atomic.Value
	streams.Store(`{"server": {"publish": "token", "rtmp": 1935, "rtmps": 1935}, "streams": []}`)
	if err := chromedp.Do(ctx, chromedp.Navigate(serve(t, httptest.NewTLSServer, &streams))); err != nil {
		t.Fatal(err)
	}
	const server = `document.querySelector('#rtmp code')?.textContent`
	pagetest.Await(t, ctx, server+` === 'rtmps://127.0.0.1:1935/live'`)
	streams.Store(`{"server": {"publish": "token", "rtmp": 1935, "rtmps": 443}, "streams": []}`)
	pagetest.Await(t, ctx, server+` === 'rtmps://127.0.0.1/live'`)
	streams.Store(`{"server": {"publish": "token", "rtmp": 1935, "rtmps": 0}, "streams": []}`)
	pagetest.Await(t, ctx, server+` === 'rtmp://127.0.0.1/live'`)
}

// A browser that plays HLS by itself, and no MP4 without an end, gets HLS. Any other one stays with MP4.
func TestPageInABrowserOfHLS(t *testing.T) {
	for _, test := range []struct{ answer, second string }{{"maybe", "/live/cam/index.m3u8"}, {"", "/live/cam.mp4"}} {
		ctx, _ := pagetest.Browser(t)
		asked := make(chan string, 100)
		mux := http.NewServeMux()
		mux.HandleFunc("/{$}", func(w http.ResponseWriter, r *http.Request) {
			rec := httptest.NewRecorder()
			Handler().ServeHTTP(rec, r)
			_, _ = io.WriteString(w, strings.Replace(rec.Body.String(), "<script ", `<script src="browser.js"></script><script `, 1))
		})
		mux.HandleFunc("/browser.js", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/javascript")
			_, _ = io.WriteString(w, `HTMLMediaElement.prototype.canPlayType = () => '`+test.answer+`';`)
		})
		mux.Handle("/page/", Handler())
		mux.HandleFunc("/live/", func(w http.ResponseWriter, r *http.Request) {
			select {
			case asked <- r.URL.Path:
			default:
			}
			http.NotFound(w, r)
		})
		mux.HandleFunc("/api/streams", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"server": {}, "streams": [{"name": "cam", "format": "flv"}]}`)
		})
		s := httptest.NewServer(mux)
		t.Cleanup(s.Close)
		if err := chromedp.Do(ctx, chromedp.Navigate(s.URL)); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"/live/cam.mp4", test.second} {
			select {
			case got := <-asked:
				if got != want {
					t.Errorf("canPlayType answers %q: the page asks for %s, want %s", test.answer, got, want)
				}
			case <-ctx.Done():
				t.Fatalf("canPlayType answers %q: the page does not ask for %s", test.answer, want)
			}
		}
	}
}

// checkNames types names into the field that the server takes, and such as it refuses.
func checkNames(t *testing.T, ctx context.Context) {
	t.Helper()
	for name, ok := range map[string]bool{
		"film": true, "a.b-c_9": true, "mp4": true, "a/b/c/d": true, "film-i3": true, "a/Film-i3": true,
		"a/b/c/d/e": false, "a//b": false, "a/": false, "/a": false, "a/../b": false, "a/b.mp4": false, "a/index.m3u8": false, "a/film-i3": false,
		"film.mp4": false, "film.flv": false, "..": false, ".": false, "a b": false, "": false,
	} {
		invalid, hint := "true", "A name is"
		if ok {
			invalid, hint = "false", ""
		}
		got, err := chromedp.Run(ctx, chromedp.Evaluate[string](`(() => {
			const field = document.getElementById('name');
			field.value = '`+name+`';
			field.dispatchEvent(new Event('input'));
			return field.getAttribute('aria-invalid') + document.getElementById('name-hint').textContent.slice(0, 9);
		})()`))
		if err != nil || got != invalid+hint {
			t.Errorf("name %q: %q (%v), want %q", name, got, err, invalid+hint)
		}
	}
	if _, err := chromedp.Run(ctx, chromedp.Evaluate[string](`document.getElementById('name').value = 'camera'`)); err != nil {
		t.Error(err)
	}
}
