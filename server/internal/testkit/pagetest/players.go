package pagetest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// playerPage plays streams with hls.js, each in a separate video element, and records the latency
// of each player four times a second. A test calls begin() to delete the records of the start.
const playerPage = `<!doctype html><script src="hls.js"></script><script>
const players = {};
function play(name, url, config) {
  const video = document.body.appendChild(document.createElement('video'));
  const p = players[name] = { video, behind: [], errors: [], fatal: [], waiting: 0 };
  video.muted = true;
  p.hls = new Hls({ ...config });
  p.hls.on(Hls.Events.ERROR, (_, e) => {
    const text = e.type + ' ' + e.details + ' ' + (e.error?.message ?? '') + ' ' + (e.response?.code ?? '') + ' ' + (e.url ?? '');
    (e.fatal ? p.fatal : p.errors).push(text);
  });
  video.addEventListener('waiting', () => p.waiting++);
  p.hls.loadSource(url);
  p.hls.attachMedia(video);
  video.play().catch(() => {});
  setInterval(() => {
    if (p.hls.playingDate && !video.paused) p.behind.push(Date.now() - p.hls.playingDate.getTime());
  }, 250);
}
function begin(name) {
  const p = players[name];
  p.behind.length = p.errors.length = p.waiting = 0;
  p.from = p.video.currentTime;
}
function jump(name) { // as a user does: hls.js plays faster only if it is less than a segment behind its target
  const p = players[name];
  if (p.hls.latency > 3 && p.hls.liveSyncPosition) p.video.currentTime = p.hls.liveSyncPosition;
}
function report(name) {
  const p = players[name];
  return JSON.stringify({
    Time: p.video.currentTime, From: p.from ?? 0, Behind: p.behind, Errors: p.errors, Fatal: p.fatal, Waiting: p.waiting,
    Width: p.video.videoWidth, Ended: p.video.ended, Pictures: p.video.getVideoPlaybackQuality().totalVideoFrames,
    Dropped: p.video.getVideoPlaybackQuality().droppedVideoFrames, Target: p.hls.targetLatency ?? 0,
  });
}
</script><body>`

// A Playback describes how a player on the test page has played its stream. The JavaScript function
// begin() of the page clears Behind, Errors and Waiting.
type Playback struct {
	Time, From float64 // playback positions in seconds: now, and at the last call to begin()
	Behind     []float64
	Errors     []string // errors from which hls.js recovered
	Fatal      []string
	Waiting    int // number of times that the video ran out of data
	Width      int
	Ended      bool // whether the video has reached the end of the stream
	Pictures   int
	Dropped    int
	Target     float64 // target latency of hls.js in seconds
}

// Mistakes returns all errors, except errors that a busy machine causes.
func (p *Playback) Mistakes() (list []string) {
	for _, e := range slices.Concat(p.Errors, p.Fatal) {
		if !strings.Contains(e, "bufferStalledError") &&
			!strings.Contains(e, "bufferNudgeOnStall") && !strings.Contains(e, "TimeOut") {
			list = append(list, e)
		}
	}
	return list
}

func (p *Playback) String() string {
	return fmt.Sprintf(
		"%.1f s, %d video frames (%d dropped), %s behind (wants %.1f s), waiting %d times, errors %q, fatal %q",
		p.Time-p.From, p.Pictures, p.Dropped, spread(p.Behind), p.Target, p.Waiting, p.Errors,
		p.Fatal)
}

func spread(ms []float64) string {
	if len(ms) == 0 {
		return "unknown"
	}
	s := slices.Sorted(slices.Values(ms))
	return fmt.Sprintf("%.0f to %.0f ms, median %.0f ms,", s[0], s[len(s)-1], s[len(s)/2])
}

// Players is a web page that plays streams with hls.js. It does not have the same origin as the
// server under test.
type Players struct {
	t   testing.TB
	ctx context.Context
}

// reachTime is extra time for a player on a busy machine. Players.Reaches fails the test if a
// player needs more than the expected playing time and reachTime together.
const reachTime = 30 * time.Second

// NewPlayers opens a page that plays streams. The page is closed at the end of the test.
func NewPlayers(t testing.TB) *Players { return OpenPage(t, playerPage) }

// OpenPage opens a web page with the HTML source in html. The page may load the script "hls.js".
// The page does not have the same origin as the server under test. The page is closed at the end of
// the test.
func OpenPage(t testing.TB, html string) *Players {
	t.Helper()
	script := HLSJS(t)
	ctx, _ := Browser(t)
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hls.js" {
			w.Header().Set("Content-Type", "text/javascript")
			_, _ = w.Write(script)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte(html))
	}))
	t.Cleanup(site.Close)
	if err := chromedp.Do(ctx, chromedp.Navigate(site.URL)); err != nil {
		t.Fatal(err)
	}
	return &Players{t, ctx}
}

// Eval evaluates a JavaScript expression, and returns the value as text.
func (p *Players) Eval(expression string) string {
	p.t.Helper()
	text, err := chromedp.Run(p.ctx, chromedp.Evaluate[string]("String("+expression+")"))
	if err != nil {
		p.t.Fatalf("%s: %v", expression, err)
	}
	return text
}

// Play starts a player with the given name. The argument config is the configuration of hls.js: the
// properties of a JavaScript object, without the braces.
func (p *Players) Play(name, url, config string) {
	p.t.Helper()
	p.Eval(fmt.Sprintf("play(%q, %q, {%s})", name, url, config))
}

// Reaches waits until the player with the given name has played for more than the given seconds
// since the last call to begin(), a JavaScript function of the page. The test fails if this takes
// too long, or if the player has a fatal error.
func (p *Players) Reaches(name string, seconds float64) {
	p.t.Helper()
	deadline := time.Now().Add(reachTime + time.Duration(seconds)*time.Second)
	for {
		r := p.Report(name)
		if len(r.Fatal) > 0 || time.Now().After(deadline) {
			p.t.Fatalf("player %s has not played %v s: %v", name, seconds, r)
		}
		if r.Time-r.From > seconds {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// Report describes how the player with the given name has played its stream.
func (p *Players) Report(name string) *Playback {
	p.t.Helper()
	r := new(Playback)
	if err := json.Unmarshal([]byte(p.Eval(fmt.Sprintf("report(%q)", name))), r); err != nil {
		p.t.Fatal(err)
	}
	return r
}
