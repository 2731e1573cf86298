package server

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

	"github.com/millrace-io/millrace/internal/server/page/pagetest"
	"github.com/millrace-io/millrace/internal/testkit/hlscheck"
)

// playerPage plays streams by hls.js, each in a video of its own. A player notes how far it is behind the present four
// times a second. begin forgets what was noted: what a player does before it plays steadily is its own affair.
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
function report(name) {
  const p = players[name];
  return JSON.stringify({
    Time: p.video.currentTime, From: p.from ?? 0, Behind: p.behind, Errors: p.errors, Fatal: p.fatal, Waiting: p.waiting,
    Width: p.video.videoWidth, Ended: p.video.ended, Pictures: p.video.getVideoPlaybackQuality().totalVideoFrames,
    Dropped: p.video.getVideoPlaybackQuality().droppedVideoFrames, Target: p.hls.targetLatency ?? 0,
  });
}
</script><body>`

// A playback is what a player did since its begin.
type playback struct {
	Time, From float64 // of the video
	Behind     []float64
	Errors     []string // that it has got over
	Fatal      []string
	Waiting    int // times that it had nothing to show
	Width      int
	Ended      bool // it has played the end of the stream
	Pictures   int
	Dropped    int
	Target     float64 // seconds that it wants to be behind
}

// mistakes are the errors that a machine without time for the browser is no reason for.
func (p *playback) mistakes() (list []string) {
	for _, e := range slices.Concat(p.Errors, p.Fatal) {
		if !strings.Contains(e, "bufferStalledError") && !strings.Contains(e, "bufferNudgeOnStall") && !strings.Contains(e, "TimeOut") {
			list = append(list, e)
		}
	}
	return list
}

func (p *playback) String() string {
	return fmt.Sprintf("%.1f s, %d pictures (%d dropped), %s behind (wants %.1f s), waiting %d times, errors %q, fatal %q",
		p.Time-p.From, p.Pictures, p.Dropped, spread(p.Behind), p.Target, p.Waiting, p.Errors, p.Fatal)
}

// spread returns least, median and most.
func spread(ms []float64) string {
	if len(ms) == 0 {
		return "unknown"
	}
	s := slices.Sorted(slices.Values(ms))
	return fmt.Sprintf("%.0f to %.0f ms, median %.0f ms,", s[0], s[len(s)-1], s[len(s)/2])
}

// A playerTab is a page of another site than the server's, which plays streams by hls.js.
type playerTab struct {
	t   *testing.T
	ctx context.Context
}

func newPlayerTab(t *testing.T) *playerTab {
	t.Helper()
	script := pagetest.HLSJS(t)
	ctx, _ := pagetest.Browser(t)
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hls.js" {
			w.Header().Set("Content-Type", "text/javascript")
			_, _ = w.Write(script)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte(playerPage))
	}))
	t.Cleanup(site.Close)
	if err := chromedp.Do(ctx, chromedp.Navigate(site.URL)); err != nil {
		t.Fatal(err)
	}
	return &playerTab{t, ctx}
}

func (p *playerTab) eval(expression string) string {
	p.t.Helper()
	text, err := chromedp.Run(p.ctx, chromedp.Evaluate[string]("String("+expression+")"))
	if err != nil {
		p.t.Fatalf("%s: %v", expression, err)
	}
	return text
}

// play starts a player. config is the inside of a JavaScript object.
func (p *playerTab) play(name, url, config string) {
	p.t.Helper()
	p.eval(fmt.Sprintf("play(%q, %q, {%s})", name, url, config))
}

// reaches waits until the player has played so many seconds since begin.
func (p *playerTab) reaches(name string, seconds float64) {
	p.t.Helper()
	deadline := time.Now().Add(3*testTimeout + time.Duration(seconds)*time.Second)
	for {
		r := p.report(name)
		if len(r.Fatal) > 0 || time.Now().After(deadline) {
			p.t.Fatalf("player %s has not played %v s: %v", name, seconds, r)
		}
		if r.Time-r.From > seconds {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func (p *playerTab) report(name string) *playback {
	p.t.Helper()
	r := new(playback)
	if err := json.Unmarshal([]byte(p.eval(fmt.Sprintf("report(%q)", name))), r); err != nil {
		p.t.Fatal(err)
	}
	return r
}

// hls.js on a page of another site plays the demo by parts, by whole segments and with a token, and never stops. By parts it
// is less than two seconds behind.
func TestHLSInABrowser(t *testing.T) {
	tab := newPlayerTab(t)
	open := serve(t, func(c *Config) { c.Demo, c.Latency = true, Defaults().Latency })
	closed := serve(t, func(c *Config) { c.Demo, c.Latency, c.ReadToken = true, Defaults().Latency, "a secret" })
	const path = "/live/demo/index.m3u8"
	checkBeside(t, open.follow("demo", func(c *hlscheck.Client) { c.FromStart, c.Verify = false, 10 }))
	// A player that a busy machine has held up plays faster until it is live again.
	const live = "lowLatencyMode: true, maxLiveSyncPlaybackRate: 1.5"
	tab.play("parts", open.URL(path), live)
	tab.play("token", closed.URL(path)+"?token=a+secret", live)
	names := []string{"parts", "token"}
	// A machine that has no time for the browser makes it stop, and be late. That is no fault of the stream if it does not
	// happen again and again.
	rounds, seconds, want := 6, 10.0, 3
	if testing.Short() {
		rounds, seconds, want = 3, 4, 1
	} else { // it begins three segments from the end, when there are so many
		tab.reaches("parts", 8)
		tab.play("segments", open.URL(path), "lowLatencyMode: false")
		names = append(names, "segments")
	}
	steady := map[string]int{}
	for round := range rounds {
		for _, name := range names {
			tab.reaches(name, 2)
			tab.eval(fmt.Sprintf("begin(%q)", name))
		}
		least := rounds
		for _, name := range names {
			tab.reaches(name, seconds)
			r := tab.report(name)
			t.Logf("%s: %v", name, r)
			last := slices.Max(append(r.Behind, 0))
			if r.Waiting == 0 && len(r.Errors) == 0 && last > 0 && (name == "segments" || last < 2000) {
				steady[name]++
			}
			least = min(least, steady[name])
			if m := r.mistakes(); len(m) > 0 {
				t.Errorf("%s: %q", name, m)
			}
			if r.Width != 640 {
				t.Errorf("%s: the picture is %d wide", name, r.Width)
			}
		}
		if testing.Short() && least >= want {
			return
		}
		if round == rounds-1 && least < want {
			t.Errorf("of %d rounds without a stop and within two seconds there were %v", rounds, steady)
		}
	}
}

// checkBeside has a player check the playlists while browsers play. Mistakes against some rules may be made.
func checkBeside(t *testing.T, player *hlsPlayer, may ...string) {
	t.Cleanup(func() {
		stats := player.stop()
		if mistakes := hlscheck.Must(hlscheck.Without(stats.Problems, may...)); stats.Playlists == 0 || len(mistakes) > 0 {
			t.Errorf("there are mistakes: %v\n%v", mistakes, stats)
		}
	})
}

// hls.js plays on by parts and by segments when the publisher is cut and comes back, when it comes back with other codecs, and to the
// end of the stream.
func TestHLSChangesInABrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("plays in real time")
	}
	tab := newPlayerTab(t)
	f := serve(t, func(c *Config) { c.PublisherReturn = testTimeout })
	// Where the publisher is cut, a part may be short: what comes next is not known.
	checkBeside(t, f.follow("film", nil), "hint-broken", "part-short")
	film := sampleReel(5)
	other := slices.Concat(otherCodec(t, film.config()), film.rest())
	for i, part := range []reel{film, film, other, film} {
		p := f.Publisher("film")
		begin := time.Now()
		for j, tag := range part {
			time.Sleep(time.Until(begin.Add(time.Duration(tagTime(tag)) * time.Millisecond)))
			if j == 0 {
				tag = reel{tag}.bytes(5)
			}
			p.Send(tag)
			if i == 0 && j == len(part)/2 {
				tab.play("parts", f.URL("/live/film/index.m3u8"), "lowLatencyMode: true, startPosition: 0")
				tab.play("segments", f.URL("/live/film/index.m3u8"), "lowLatencyMode: false, startPosition: 0")
			}
		}
		if i == 3 {
			p.End()
		} else {
			p.Cut()
			p.Wait()
		}
	}
	for _, name := range []string{"parts", "segments"} {
		eventually(t, name+" to play to the end", func() bool { return tab.report(name).Ended })
		r := tab.report(name)
		t.Logf("%s: %v", name, r)
		if m := r.mistakes(); len(m) > 0 || r.Time < 15 {
			t.Errorf("%s: played %v s, %q", name, r.Time, m)
		}
	}
}
