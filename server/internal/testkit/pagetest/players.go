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

// playerPage plays streams with hls.js, each in a separate video element. A player records its
// latency four times a second. begin clears the records, to ignore the time before the player plays
// steadily.
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
function jump(name) { // as a user does: hls.js plays faster only if it is less than a segment behind what it wants
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

// A Playback is the record of a player since its begin.
type Playback struct {
	Time, From float64 // of the video
	Behind     []float64
	Errors     []string // errors from which it recovered
	Fatal      []string
	Waiting    int // times that it had nothing to show
	Width      int
	Ended      bool // it has played the end of the stream
	Pictures   int
	Dropped    int
	Target     float64 // seconds that it wants to be behind
}

// Mistakes are the errors that a machine without time for the browser is no reason for.
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

// spread returns least, median and most.
func spread(ms []float64) string {
	if len(ms) == 0 {
		return "unknown"
	}
	s := slices.Sorted(slices.Values(ms))
	return fmt.Sprintf("%.0f to %.0f ms, median %.0f ms,", s[0], s[len(s)-1], s[len(s)/2])
}

// A Players is a page of another site than the server's, which plays streams by hls.js.
type Players struct {
	t   testing.TB
	ctx context.Context
}

// reachTime is how much longer than its time a player may take for something on a busy machine.
const reachTime = 30 * time.Second

// NewPlayers opens such a page, which ends with the test.
func NewPlayers(t testing.TB) *Players { return OpenPage(t, playerPage) }

// OpenPage opens a page of another site, which may load hls.js as "hls.js" and ends with the test.
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

// Eval returns the value of a JavaScript expression, as text.
func (p *Players) Eval(expression string) string {
	p.t.Helper()
	text, err := chromedp.Run(p.ctx, chromedp.Evaluate[string]("String("+expression+")"))
	if err != nil {
		p.t.Fatalf("%s: %v", expression, err)
	}
	return text
}

// Play starts a player. config is the inside of a JavaScript object.
func (p *Players) Play(name, url, config string) {
	p.t.Helper()
	p.Eval(fmt.Sprintf("play(%q, %q, {%s})", name, url, config))
}

// Reaches waits until the player has played so many seconds since begin.
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

// Report returns the record of a player since begin(NAME) was called in the page.
func (p *Players) Report(name string) *Playback {
	p.t.Helper()
	r := new(Playback)
	if err := json.Unmarshal([]byte(p.Eval(fmt.Sprintf("report(%q)", name))), r); err != nil {
		p.t.Fatal(err)
	}
	return r
}
