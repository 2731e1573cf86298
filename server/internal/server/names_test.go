package server

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/millrace-io/millrace/internal/testkit/hlscheck"
	"github.com/millrace-io/millrace/internal/testkit/need"
	"github.com/millrace-io/millrace/server/internal/demo"
	"github.com/millrace-io/millrace/server/internal/streamname"
)

// A stream with a name of several parts is one stream over all protocols, and differs from the
// stream named by its first part.
func TestNamesWithParts(t *testing.T) {
	t.Parallel()
	need.Program(t, "ffmpeg")
	need.Program(t, "ffprobe")
	dir := t.TempDir()
	f := serveRTMP(t, func(c *Config) { c.Record = dir })
	film := hlsFilm(t, 5)
	outer := f.Publisher("tenant")
	outer.Send(demo.Sample)
	publish := exec.CommandContext(t.Context(), "ffmpeg", "-v", "error", "-re",
		"-stream_loop", "-1", // the test ends it after all clients
		"-i", film, "-c", "copy", "-f", "flv", "rtmp://"+f.rtmp+"/live/tenant/cam")
	if err := publish.Start(); err != nil {
		t.Fatal(err)
	}
	player := f.follow("tenant/cam", func(c *hlscheck.Client) { c.Delta, c.Hints = true, true })
	begins := make(map[string][]byte)
	for _, path := range []string{"/live/tenant/cam", "/live/tenant/cam.flv",
		"/live/tenant%2Fcam.flv", "/live/tenant/cam.mp4", "/live/tenant.flv"} {
		res, err := http.Get(f.URL(path))
		if err != nil {
			t.Fatal(err)
		}
		p := make([]byte, 1000)
		if _, err := io.ReadFull(res.Body, p); err != nil || res.StatusCode != http.StatusOK {
			t.Errorf("%s: %s, %v, want 200 and the stream", path, res.Status, err)
		}
		_ = res.Body.Close()
		begins[path] = p
	}
	if bytes.Equal(begins["/live/tenant.flv"], begins["/live/tenant/cam.flv"]) {
		t.Error("both streams begin with the same bytes")
	}
	for _, address := range []string{"/live/tenant/cam", "/live/tenant/cam?token=x"} {
		out, err := exec.CommandContext(t.Context(), "ffprobe", "-v", "error", "-show_entries",
			"stream=codec_name", "-of", "compact", "rtmp://"+f.rtmp+address).CombinedOutput()
		if err != nil || bytes.Count(out, []byte("codec_name=")) != 2 {
			t.Errorf("ffprobe %s: %v, want two codecs: %s", address, err, out)
		}
	}
	// This is like clients that take the application as a part of the server's address.
	viewer := f.client("live/tenant")
	viewer.Play("cam")
	if s := viewer.AwaitStatus(); s.Level != "status" {
		t.Errorf("play cam of live/tenant: %+v", s)
	}
	player.got(300_000) // several playlists
	_ = publish.Process.Signal(os.Interrupt)
	_ = publish.Wait()
	stats := player.end()
	if p := hlscheck.Without(hlscheck.Must(stats.Problems), "bandwidth-low"); len(p) > 0 ||
		stats.Playlists < 3 {
		t.Errorf("the player found mistakes, or fewer than 3 playlists: %v", stats)
	}
	outer.End()
	f.stop()
	for _, stream := range []string{"tenant", "tenant/cam"} {
		if files, _ := filepath.Glob(filepath.Join(dir, stream, "*.mp4")); len(files) != 1 {
			t.Errorf("recordings of %s: %v", stream, files)
		}
	}
}

func TestRecordedNames(t *testing.T) {
	for _, tt := range []struct {
		pattern, name string
		want          bool
	}{
		{"*", "cam", true}, {"*", "a/b/c/d", true}, {"tenant/*", "tenant/cam", true},
		{"tenant/*", "tenant/a/b", true},
		{"tenant/*", "tenant", false}, {"cam-*", "cam-1", true}, {"cam-*", "x/cam-1", false},
		{"*/cam-?", "x/cam-1", true},
	} {
		if got := streamname.Match(tt.pattern, tt.name); got != tt.want {
			t.Errorf("recorded(%q, %q) = %v, want %v", tt.pattern, tt.name, got, tt.want)
		}
	}
}

// --cors names the sites whose pages may play streams.
func TestOrigins(t *testing.T) {
	for _, tt := range []struct{ list, origin, want, vary string }{
		{"*", "https://example.org", "*", ""},
		{"*", "", "*", ""},
		{"https://example.org, http://localhost:3000", "https://example.org", "https://example.org",
			"Origin"},
		{"https://example.org,http://localhost:3000", "http://LOCALHOST:3000",
			"http://LOCALHOST:3000", "Origin"},
		{"https://example.org", "https://example.org:8443", "", "Origin"},
		{"https://example.org", "https://example.org.evil", "", "Origin"},
		{"https://example.org", "null", "", "Origin"},
		{"https://example.org", "", "", "Origin"},
		{"", "https://example.org", "", ""},
	} {
		f := serve(t, func(c *Config) { c.CORS, c.ReadToken = tt.list, "t" })
		p := f.Publisher("cam")
		p.Send(demo.Sample)
		for _, request := range []string{"GET /live/cam.flv?token=t", "GET /live/cam.mp4?token=t",
			"HEAD /live/cam?token=t", "GET /live/cam.flv",
			"GET /live/cam/index.m3u8?token=t", "GET /live/none/5-1.m4s?token=t",
			"OPTIONS /live/cam.flv"} {
			method, path, _ := bytes.Cut([]byte(request), []byte(" "))
			req, err := http.NewRequest(string(method), f.URL(string(path)), nil)
			if err != nil {
				t.Fatal(err)
			}
			if tt.origin != "" {
				req.Header.Set("Origin", tt.origin)
			}
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = res.Body.Close()
			vary := ""
			for _, v := range res.Header.Values("Vary") {
				if v == "Origin" {
					vary = v
				}
			}
			if got := res.Header.Get("Access-Control-Allow-Origin"); got != tt.want ||
				vary != tt.vary {
				t.Errorf("%q, %s from %q: %s, %q, Vary %q", tt.list, request, tt.origin, res.Status,
					got, res.Header.Values("Vary"))
			}
			if methods := res.Header.Get(
				"Access-Control-Allow-Methods"); string(method) == "OPTIONS" &&
				(methods != "") != (tt.want != "") {
				t.Errorf("%q from %q: methods %q", tt.list, tt.origin, methods)
			}
		}
		p.End()
		f.stop()
	}
}
