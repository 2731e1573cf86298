package page

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/millrace-io/millrace/internal/testkit/nettest"
	"github.com/millrace-io/millrace/server/internal/testkit/pagetest"
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

// serve serves the page, and the value of streams as its API. start starts the server; "" stands
// for a server that does not answer.
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

// serveLive serves the page, the value of streams as its API, and live below /live/.
func serveLive(t *testing.T, streams *atomic.Value, live http.HandlerFunc) string {
	return serve(t, func(page http.Handler) *httptest.Server {
		mux := http.NewServeMux()
		mux.Handle("/", page)
		mux.HandleFunc("/live/", live)
		return httptest.NewServer(mux)
	}, streams)
}

// unplayable responds with data that no browser can play. A client that reads it with fetch must
// close it.
func unplayable(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "video/mp4")
	_, _ = io.WriteString(w, strings.Repeat("not a video", 1000))
	if r.Header.Get("Sec-Fetch-Dest") == "empty" {
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
}

// The page is shown when nothing is live, when a stream has a hostile name, and when the server
// disappears and returns.
func TestPageInABrowser(t *testing.T) {
	ctx, console := pagetest.Browser(t)
	var streams atomic.Value
	streams.Store(nothing)
	if err := chromedp.Do(ctx, chromedp.Navigate(serve(t, httptest.NewServer,
		&streams))); err != nil {
		t.Fatal(err)
	}
	const shown = `document.getElementById('%').checkVisibility()`
	visible := func(id string) string { return strings.ReplaceAll(shown, "%", id) }

	pagetest.Await(t, ctx, visible("empty")+" && "+visible("publish")+" && !"+visible("stage"))
	const commands = `document.querySelector('#commands').textContent`
	const rtmp = `[...document.querySelectorAll('#rtmp code')].map(e => e.textContent).join(' ')`
	pagetest.Await(
		t, ctx, commands+`.includes('-send_expect_100 1 -method POST ' + location.origin + '/live/camera')`)
	pagetest.Await(t, ctx,
		`document.querySelector('#publish-note').textContent.includes('on the machine that the server runs on')`)
	pagetest.Await(t, ctx, "!"+visible("files")+" && !"+visible("files-named")+
		" && !"+visible("blobs"))
	pagetest.Await(t, ctx, rtmp+" === '' && !"+visible("rtmp-title")+
		" && !"+visible("commands-title"))
	checkNames(t, ctx)

	// The page shows the settings for OBS if there is RTMP and the browser's machine may publish
	// over it.
	streams.Store(open)
	pagetest.Await(t, ctx, rtmp+` === 'rtmp://127.0.0.1/live camera' && `+visible("rtmp-title")+
		" && "+visible("commands-title"))
	pagetest.Await(t, ctx,
		`document.querySelector('#publish-note').textContent.startsWith('With OBS or ffmpeg')`)
	pagetest.Await(t, ctx, `document.querySelectorAll('#rtmp .copy').length === 2`)
	streams.Store(unsafe)
	pagetest.Await(
		t, ctx, rtmp+` === '' && document.querySelector('#publish-hint').textContent.startsWith('RTMP accepts no streams')`)
	streams.Store(near)
	pagetest.Await(t, ctx, rtmp+` === 'rtmp://127.0.0.1/live camera' && `+commands+
		` === '' && `+visible("name-field"))
	pagetest.Await(t, ctx, visible("rtmp-title")+" && !"+visible("commands-title")+
		` && document.querySelector('#publish-hint').textContent.startsWith('This server accepts streams over RTMP only. Publishing is off')`)

	streams.Store(token)
	pagetest.Await(
		t, ctx, commands+`.includes('-headers "Authorization: Bearer TOKEN" -send_expect_100 1')`)
	pagetest.Await(t, ctx,
		`document.querySelector('#publish-note').textContent.includes('from any machine')`)
	pagetest.Await(t, ctx, rtmp+` === 'rtmp://127.0.0.1:1936/live camera?token=TOKEN'`)
	pagetest.Await(t, ctx, visible("files")+" && !"+visible("files-named")+" && "+visible("blobs"))
	streams.Store(off)
	pagetest.Await(t, ctx, "!"+visible("files")+" && "+visible("files-named"))
	pagetest.Await(t, ctx,
		`document.querySelector('#publish-hint').textContent.startsWith('Publishing is off') && `+commands+` === ''`)
	pagetest.Await(t, ctx, "!"+visible("name-field")+" && !"+visible("empty-how")+" && "+rtmp+
		" === ''")

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

		"#facts div:nth-child(8) dd": "0 B; 3 GOPs were too long",
		"#message":                   "This stream is not a video format for browsers. It is relayed unchanged.",
	} {
		got, err := chromedp.Run(ctx, chromedp.TextContent(chromedp.CSS(selector)))
		if err != nil || got != want {
			t.Errorf("%s is %q (%v), want %q", selector, got, err, want)
		}
	}
	if lines := console.Lines(); len(lines) > 0 {
		t.Errorf("the console shows:\n%s", strings.Join(lines, "\n"))
	}

	// If reading needs a token, the addresses for other programs have a place for it, and the page
	// says what to insert.
	streams.Store(private)
	const watch = `document.querySelector('#watch').textContent`
	pagetest.Await(
		t, ctx, watch+`.includes('ffplay -fflags nobuffer "' + location.origin + '/live/site/cam.flv?token=READ_TOKEN"')`)
	pagetest.Await(t, ctx, watch+`.includes('/live/site/cam.mp4?token=READ_TOKEN')`)
	pagetest.Await(t, ctx, watch+`.includes('/live/site/cam/index.m3u8?token=READ_TOKEN')`)
	pagetest.Await(t, ctx, watch+`.includes('rtmp://127.0.0.1/live/site/cam?token=READ_TOKEN')`)
	pagetest.Await(t, ctx,
		`document.querySelector('#facts').textContent.includes('9, 4 as MP4, 2 over RTMP, 7 more over HLS')`)
	pagetest.Await(t, ctx,
		`document.querySelector('#watch-hint').textContent.includes('--read-token')`)

	// The publisher sends nothing.
	streams.Store(silent)
	pagetest.Await(t, ctx,
		`document.querySelector('#stage-badge').textContent === 'Live, silent for 7 s'`)
	pagetest.Await(t, ctx,
		`document.querySelector('#facts').textContent.includes('Furthest from live9.7 sKeyframesevery 10.0 s, which is long: viewers start')`)
	pagetest.Await(t, ctx, `[...document.querySelectorAll('#rows .codec')].map(e => e.textContent).join('; ') ===
		'h264 · silent for 7 s; h264 · waiting for its publisher; h264'`)

	// The streams of all nodes are listed with their nodes and viewers. Nodes are not counted as
	// viewers.
	streams.Store(nodes)
	const where = `[...document.querySelectorAll('#rows tr')].map(e => e.querySelector('.name').textContent + ': ' + e.querySelector('.where').textContent).join('; ')`
	pagetest.Await(
		t, ctx, where+` === 'cam: at 10.0.0.2:8080, pulled by 10.0.0.1:8080, 10.0.0.3:8080; far: at 10.0.0.2:8080; here: at 10.0.0.1:8080, pulled by 4 nodes'`)
	pagetest.Await(t, ctx,
		`[...document.querySelectorAll('#rows .viewers span')].map(e => e.textContent).join(' ') === '12 1 3'`)
	pagetest.Await(t, ctx, `document.querySelector('#nodes').textContent === '5 of 6 nodes answer'`)
	pagetest.Await(t, ctx,
		`document.querySelector('[data-total=streams]').textContent === '3' && document.querySelector('[data-total=viewers]').textContent === '16'`)
	pagetest.Await(t, ctx,
		`document.querySelector('#facts').textContent.includes('Published at10.0.0.2:8080Pulled by10.0.0.1:8080, 10.0.0.3:8080')`)
	pagetest.Await(t, ctx, `document.querySelector('#facts').textContent.startsWith('Videoh264')`)

	streams.Store("")
	pagetest.Await(t, ctx, visible("banner")+
		` && document.querySelector('#banner p').textContent.startsWith('The server answers 503')`)
	streams.Store(nothing)
	pagetest.Await(t, ctx, "!"+visible("banner")+" && "+visible("empty"))
}

// The page says so if no browser can decode a stream, and offers the addresses that work.
func TestPageOfAnUndecodableStream(t *testing.T) {
	ctx, _ := pagetest.Browser(t)
	var streams atomic.Value
	streams.Store(
		`{"server": {}, "streams": [{"name": "old", "format": "flv", "video": "h263", "audio": "mp3", "left_out": "all"}]}`)
	if err := chromedp.Do(ctx, chromedp.Navigate(serveLive(t, &streams, unplayable))); err != nil {
		t.Fatal(err)
	}
	const watch = `document.querySelector('#watch').textContent`
	pagetest.Await(t, ctx,
		`document.querySelector('#message').textContent.startsWith('Browsers cannot play this stream: h263 and mp3')`)
	pagetest.Await(t, ctx, watch+`.includes('/live/old.flv') && !`+watch+
		`.includes('.mp4') && !`+watch+`.includes('.m3u8')`)
	streams.Store(
		`{"server": {}, "streams": [{"name": "old", "format": "flv", "video": "h263", "audio": "aac", "left_out": "video"}]}`)
	pagetest.Await(
		t, ctx, watch+`.includes('.mp4') && document.querySelector('#watch-hint').textContent.startsWith('Browsers get only the audio: h263')`)

	// An error of the browser itself, such as a missing codec, stays visible between the attempts.
	const message = `document.querySelector('#message').textContent`
	streams.Store(
		`{"server": {}, "streams": [{"name": "old", "format": "flv", "video": "h265", "audio": "aac"}]}`)
	pagetest.Await(t, ctx, message+`.startsWith('This browser cannot play the stream')`)
	for _, event := range []string{"pause", "waiting"} {
		got, err := chromedp.Run(ctx, chromedp.Evaluate[string](`(() => {
			document.getElementById('video').dispatchEvent(new Event('`+event+`'));
			return `+message+`;
		})()`))
		if err != nil || !strings.HasPrefix(got, "This browser cannot") {
			t.Errorf("after %s: %q, %v, want the reason of the browser", event, got, err)
		}
	}
}

// The page fits a phone, and does not show the operator's figures to viewers.
func TestPageOnAPhone(t *testing.T) {
	ctx, _ := pagetest.Browser(t)
	var streams atomic.Value
	const stream = `"streams": [{"name": "a/rather-long-name-of-a-stream-in-parts/camera-12", "format": "flv", "video": "h264 1920x1080",
		"audio": "aac", "memory_bytes": 5, "viewers": 123456, "lag_seconds_max": 12.5, "frames_lost": 123, "stalled": 12, "bits_per_second": 123456789}]}`
	streams.Store(
		`{"server": {"publish": "token", "rtmp": 1936, "memory_bytes": 77, "operator": true, "files": "listed", "blobs": true}, ` + stream)
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

// A page that was loaded over TLS tells encoders to use TLS, if RTMP over TLS is available.
func TestPageOverTLS(t *testing.T) {
	ctx, _ := pagetest.Browser(t)
	var streams atomic.Value
	streams.Store(`{"server": {"publish": "token", "rtmp": 1935, "rtmps": 1935}, "streams": []}`)
	if err := chromedp.Do(ctx, chromedp.Navigate(serve(t, httptest.NewTLSServer,
		&streams))); err != nil {
		t.Fatal(err)
	}
	const server = `document.querySelector('#rtmp code')?.textContent`
	pagetest.Await(t, ctx, server+` === 'rtmps://127.0.0.1:1935/live'`)
	streams.Store(`{"server": {"publish": "token", "rtmp": 1935, "rtmps": 443}, "streams": []}`)
	pagetest.Await(t, ctx, server+` === 'rtmps://127.0.0.1/live'`)
	streams.Store(`{"server": {"publish": "token", "rtmp": 1935, "rtmps": 0}, "streams": []}`)
	pagetest.Await(t, ctx, server+` === 'rtmp://127.0.0.1/live'`)
}

// If a server or a proxy refuses to play the stream, the page gives the reason, does not blame the
// browser, and retries. It ends its own request as soon as the status is known.
func TestPageSaysWhyTheServerRefuses(t *testing.T) {
	ctx, _ := pagetest.Browser(t)
	var streams atomic.Value
	streams.Store(nothing)
	var answer atomic.Value
	var attempts, questions atomic.Int64
	at := serveLive(t, &streams, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Sec-Fetch-Dest") == "empty" { // sent by fetch
			questions.Add(1)
			defer questions.Add(-1)
		} else {
			attempts.Add(1)
		}
		status, rest, _ := strings.Cut(answer.Load().(string), " ")
		code, err := strconv.Atoi(status)
		switch {
		case err != nil:
			panic(http.ErrAbortHandler) // breaks the connection
		case code == http.StatusOK:
			unplayable(w, r)
		default:
			kind, body, _ := strings.Cut(rest, " ")
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(code)
			_, _ = io.WriteString(w, body+"\n")
		}
	})
	if err := chromedp.Do(ctx, chromedp.Navigate(at)); err != nil {
		t.Fatal(err)
	}
	// blamed records the first time that the page blames the browser.
	if _, err := chromedp.Run(ctx, chromedp.Evaluate[bool](`(() => {
		const message = document.getElementById('message');
		new MutationObserver(() => window.blamed ||= message.textContent.startsWith('This browser'))
			.observe(message, { childList: true, characterData: true, subtree: true });
		return true;
	})()`)); err != nil {
		t.Fatal(err)
	}
	const message = `document.getElementById('message').textContent`
	const refused = "The server refuses to play this stream: "
	for i, test := range []struct {
		answer, want string
		attempts     int64
	}{
		{"503 text/plain as many as there may be", refused + "as many as there may be", 4},
		{"403 text/plain;charset=utf-8 <b>pay</b> first", refused + "<b>pay</b> first", 1},
		{"401 text/plain a token is needed", refused + "a token is needed", 1},
		{"404 text/plain no such stream", refused + "no such stream", 1},
		{"502 text/html <html>a proxy's page</html>", refused + "502 Bad Gateway", 1},
		// The server uses HTTP/2 and is short of memory.
		{"503 text/plain ", refused + "503 Service Unavailable", 1},
		{"broken", "The server does not answer.", 4},
	} {
		answer.Store(test.answer)
		attempts.Store(0)
		streams.Store(fmt.Sprintf(`{"server": {}, "streams": [{"name": "cam%d", "format": "flv"}]}`,
			i))
		pagetest.Await(t, ctx, message+" === `"+test.want+"`")
		nettest.Eventually(t, "further attempts",
			func() bool { return attempts.Load() >= test.attempts })
		pagetest.Await(t, ctx, message+" === `"+test.want+"`")
	}
	blamed, err := chromedp.Run(ctx, chromedp.Evaluate[bool](`Boolean(window.blamed)`))
	if err != nil || blamed {
		t.Errorf("the page blames the browser: %v, %v", blamed, err)
	}
	answer.Store("200")
	nettest.Eventually(t, "a question", func() bool { return questions.Load() > 0 })
	nettest.Eventually(t, "its end", func() bool { return questions.Load() == 0 })
	pagetest.Await(t, ctx, message+`.startsWith('This browser cannot play the stream')`)

	// After another stream is selected, the error of the previous one is not shown.
	answer.Store("503 text/plain full")
	streams.Store(`{"server": {}, "streams": [
		{"name": "cam6", "format": "flv"}, {"name": "next", "format": "flv"}]}`)
	pagetest.Await(t, ctx, `document.querySelectorAll('#rows .pick').length === 2`)
	pagetest.Await(t, ctx, `(document.querySelectorAll('#rows .pick')[1].click(), true)`)
	pagetest.Await(t, ctx, message+" === '"+refused+"full'")
}

// Safari, which plays no endless MP4, gets HLS. Any other browser stays with MP4, even if it can
// play HLS: after a failure, with another stream, and when a stream returns.
func TestPageInABrowserOfHLS(t *testing.T) {
	const one, other = `{"server": {}, "streams": [{"name": "cam", "format": "flv"}]}`,
		`{"server": {}, "streams": [{"name": "other", "format": "flv"}]}`
	for _, test := range []struct{ vendor, answer, form string }{
		{"Apple Computer, Inc.", "maybe", "/index.m3u8"},
		{"Apple Computer, Inc.", "", ".mp4"},
		{"Google Inc.", "maybe", ".mp4"},
		{"", "", ".mp4"},
	} {
		ctx, _ := pagetest.Browser(t)
		asked := make(chan string, 100)
		mux := http.NewServeMux()
		mux.HandleFunc("/{$}", func(w http.ResponseWriter, r *http.Request) {
			rec := httptest.NewRecorder()
			Handler().ServeHTTP(rec, r)
			_, _ = io.WriteString(w, strings.Replace(rec.Body.String(), "<script ",
				`<script src="browser.js"></script><script `, 1))
		})
		mux.HandleFunc("/browser.js", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/javascript")
			_, _ = io.WriteString(w, `HTMLMediaElement.prototype.canPlayType = () => '`+test.answer+`';
				Object.defineProperty(Navigator.prototype, 'vendor', { get: () => '`+test.vendor+`' });`)
		})
		mux.Handle("/page/", Handler())
		mux.HandleFunc("/live/", func(w http.ResponseWriter, r *http.Request) {
			select {
			case asked <- r.URL.Path:
			default:
			}
			if strings.HasPrefix(r.URL.Path, "/live/other") {
				unplayable(w, r)
				return
			}
			http.Error(w, "full", http.StatusServiceUnavailable)
		})
		var streams atomic.Value
		mux.HandleFunc("/api/streams", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, streams.Load().(string))
		})
		s := httptest.NewServer(mux)
		t.Cleanup(s.Close)
		streams.Store(one)
		if err := chromedp.Do(ctx, chromedp.Navigate(s.URL)); err != nil {
			t.Fatal(err)
		}
		for _, step := range []struct{ streams, name string }{
			{one, "cam"}, {other, "other"}, {nothing, ""}, {one, "cam"},
		} {
			streams.Store(step.streams)
			if step.name == "" {
				pagetest.Await(t, ctx, `document.getElementById('stage').hidden`)
				continue
			}
			// The first attempt to play the stream, and two later requests.
			for n := 0; n < 3; {
				select {
				case got := <-asked:
					if !strings.HasPrefix(got, "/live/"+step.name) {
						continue // of the previous stream
					}
					if n++; got != "/live/"+step.name+test.form {
						t.Errorf("%+v: the page asks for %s", test, got)
					}
				case <-ctx.Done():
					t.Fatalf("%+v: the page does not ask for %s", test, step.name)
				}
			}
		}
		pagetest.Await(t, ctx,
			`document.getElementById('facts').textContent.includes('over HLS') === `+
				strconv.FormatBool(test.form != ".mp4"))
	}
}

// The page starts with a stream that a browser can play, if there is one. It keeps the visitor's
// choice.
func TestPageBeginsWithAStreamThatPlays(t *testing.T) {
	const (
		bytes   = `{"name": "a", "format": "bytes"}`
		old     = `{"name": "b", "format": "flv", "audio": "mp3", "left_out": "all"}`
		waiting = `{"name": "c", "format": "flv", "video": "h264", "waiting_seconds": 3}`
		plays   = `{"name": "d", "format": "flv", "video": "h264", "audio": "aac"}`
		also    = `{"name": "e", "format": "flv", "video": "h264", "audio": "aac"}`
		failing = `{"name": "d", "format": "flv", "video": "h263", "left_out": "all"}`
		away    = `{"name": "d", "format": "flv", "video": "h264", "waiting_seconds": 1}`
	)
	ctx, _ := pagetest.Browser(t)
	var streams atomic.Value
	list := func(all ...string) {
		streams.Store(`{"server": {}, "streams": [` + strings.Join(all, ",") + `]}`)
	}
	list(bytes, old, waiting, plays, also)
	if err := chromedp.Do(ctx, chromedp.Navigate(serveLive(t, &streams, unplayable))); err != nil {
		t.Fatal(err)
	}
	shown := func(name string, rows int) {
		t.Helper()
		pagetest.Await(t, ctx,
			`document.querySelectorAll('#rows tr').length === `+strconv.Itoa(rows)+
				` && document.getElementById('stage-name').textContent === '`+name+`'`)
	}
	shown("d", 5)
	list(bytes, old)
	shown("b", 2)
	list(old, plays) // one that can be played has appeared
	shown("d", 2)
	list(old, away, also) // its publisher may return
	shown("d", 3)
	list(old, failing, also) // its codecs have changed
	shown("e", 3)
	list(bytes, waiting)
	shown("c", 2)
	list(bytes)
	shown("a", 1)
	list(old, plays)
	shown("d", 2)
	pagetest.Await(t, ctx, `(document.querySelector('#rows .pick').click(), true)`)
	shown("b", 2)
	list(old, plays, also)
	shown("b", 3)
}

// checkNames types valid and invalid names into the field for a name.
func checkNames(t *testing.T, ctx context.Context) {
	t.Helper()
	for name, ok := range map[string]bool{
		"film": true, "a.b-c_9": true, "mp4": true, "a/b/c/d": true, "film-i3": true,
		"a/Film-i3": true,
		"a/b/c/d/e": false, "a//b": false, "a/": false, "/a": false, "a/../b": false,
		"a/b.mp4": false, "a/index.m3u8": false, "a/film-i3": false,
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
	if _, err := chromedp.Run(
		ctx, chromedp.Evaluate[string](
			`document.getElementById('name').value = 'camera'`)); err != nil {
		t.Error(err)
	}
}
