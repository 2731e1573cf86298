package server

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/millrace-io/millrace/internal/testkit/hlscheck"
	"github.com/millrace-io/millrace/internal/testkit/need"
	"github.com/millrace-io/millrace/internal/testkit/nettest"
	"github.com/millrace-io/millrace/server/internal/testkit/pagetest"
)

// A requestCount counts the requests that reach a server.
type requestCount struct {
	mu     sync.Mutex
	counts map[string]int
}

// front returns a server that counts requests and passes them on.
func (c *requestCount) front(t *testing.T, url *url.URL, tr http.RoundTripper) *httptest.Server {
	t.Helper()
	c.counts = make(map[string]int)
	proxy := &httputil.ReverseProxy{Transport: tr,
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(url) }}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		c.counts[r.URL.RequestURI()]++
		c.mu.Unlock()
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

// Fifty players, an ffmpeg and a browser play through nginx with the lines of docs/hls.md. The
// server gets one request for each segment, part and playlist.
func TestHLSBehindACache(t *testing.T) {
	t.Parallel()
	nginx := need.Program(t, "nginx")
	_, block, _ := strings.Cut(userPage(t, "hls.md"), "```nginx\n")
	block, _, _ = strings.Cut(block, "```")
	if !strings.Contains(block, "127.0.0.1:8080") ||
		!strings.Contains(block, "/var/cache/nginx/hls") {
		t.Fatalf("docs/hls.md has no configuration for nginx: %q", block)
	}
	f := serve(t, func(c *Config) { c.Demo, c.Latency = true, Defaults().Latency })
	tr := &http.Transport{MaxIdleConnsPerHost: 100}
	t.Cleanup(tr.CloseIdleConnections)
	server, err := url.Parse(f.URL(""))
	if err != nil {
		t.Fatal(err)
	}
	var asked, came requestCount
	origin := asked.front(t, server, tr)
	dir := nettest.PlainDir(t)
	block = strings.NewReplacer("127.0.0.1:8080", origin.Listener.Addr().String(),
		"/var/cache/nginx/hls", filepath.Join(dir, "hls")).Replace(block)
	client := startNginx(t, nginx, dir, filepath.Join(dir, "http"), block)
	edge := came.front(t, &url.URL{Scheme: "http", Host: "localhost"}, client.Transport)
	path := edge.URL + "/live/demo/index.m3u8"

	steps := 5 // steps of two seconds
	if testing.Short() {
		steps = 1
	}
	players := make([]*hlsPlayer, 50)
	for i := range players {
		players[i] = followURL(t, path, func(c *hlscheck.Client) {
			c.FromStart, c.Verify, c.HTTP = false, -1, client
		})
	}
	for i := range steps {
		for _, p := range players {
			p.got((i + 1) * 100_000)
		}
	}
	// Count before the players stop: if the player disconnects whose request nginx has forwarded,
	// nginx repeats the request for the others.
	asked.mu.Lock()
	objects, lists, requests := 0, 0, 0
	for uri, n := range asked.counts {
		switch {
		case strings.HasSuffix(uri, ".m4s") || strings.HasSuffix(uri, ".mp4"):
			objects++
			if n > 1 {
				t.Errorf("%s was asked for %d times", uri, n)
			}
		case strings.Contains(uri, "_HLS_msn"):
			lists++
			requests += n
		}
	}
	asked.mu.Unlock()

	var latency hlscheck.Durations
	for _, p := range players {
		stats := p.stop()
		if stats.Missed > 0 || len(hlscheck.Must(stats.Problems)) > 0 {
			t.Errorf("there are mistakes:\n%v", stats)
		}
		latency.N, latency.Sum, latency.Max = latency.N+stats.Latency.N,
			latency.Sum+stats.Latency.Sum, max(latency.Max, stats.Latency.Max)
	}
	// A playlist may be kept for only two seconds, and nginx forwards requests that have waited for
	// five. On a slow machine the server is therefore asked again.
	if objects == 0 || lists == 0 || requests > lists*len(players)/4 {
		t.Errorf("the server was asked for %d objects, and %d times for %d playlists", objects,
			requests, lists)
	}
	t.Logf("50 players: %d objects, %d requests for %d playlists; latency: mean %v, most %v",
		objects, requests, lists, latency.Mean(), latency.Max)
	if testing.Short() {
		return
	}
	need.Program(t, "ffmpeg")
	pictures := sums(runProgram(t, "ffmpeg", "-v", "error", "-i", path, "-t", "3", "-map", "0:v",
		"-f", "framemd5", "-"))
	if len(pictures) != 75 {
		t.Errorf("ffmpeg has %d video frames, want 75", len(pictures))
	}
	tab := pagetest.NewPlayers(t)
	tab.Play("parts", path, "lowLatencyMode: true")
	tab.Reaches("parts", 2)
	tab.Eval(`begin("parts")`)
	tab.Reaches("parts", 5)
	t.Log("hls.js: ", tab.Report("parts"))
}
