package server

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/millrace-io/millrace/internal/testkit/need"
	"github.com/millrace-io/millrace/internal/testkit/nettest"
	"github.com/millrace-io/millrace/server/internal/demo"
	"github.com/millrace-io/millrace/server/internal/hook"
	"github.com/millrace-io/millrace/server/internal/token"
)

// A testHook answers with the result of its function, and records the requests.
type testHook struct {
	*httptest.Server
	mu  sync.Mutex
	got []hook.Request
}

func newTestHook(t *testing.T, answer func(q hook.Request) (status int, body string)) *testHook {
	h := &testHook{}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q hook.Request
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
			t.Errorf("the request is no JSON: %v", err)
		}
		h.mu.Lock()
		h.got = append(h.got, q)
		h.mu.Unlock()
		status, body := answer(q)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(h.Close)
	return h
}

func (h *testHook) events(e hook.Event) (list []hook.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, q := range h.got {
		if q.Event == e {
			list = append(list, q)
		}
	}
	return list
}

// keyed maps publishers of s3cr3t and players of inv1te to the stream show. It also allows players
// of show, and refuses all others.
func keyed(q hook.Request) (status int, body string) {
	switch {
	case q.Event == hook.Publish && q.Stream == "s3cr3t", q.Event == hook.PlayBegin &&
		q.Stream == "inv1te":
		return 200, `{"allow":true,"name":"show"}`
	case q.Event == hook.Publish:
		return 200, `{"allow":false,"reason":"unknown stream key"}`
	case q.Event == hook.PlayBegin && q.Stream != "show" && q.Stream != "guess3d":
		return 404, `{"reason":"no such show"}`
	}
	return 204, ""
}

// keepsSecrets reports an error if the log, the metrics or the API contains one of the words.
func (f *fixture) keepsSecrets(words ...string) {
	f.T.Helper()
	for what, text := range map[string]string{"log": f.Log.String(),
		"metrics": f.Get("/metrics").Body,
		"API":     f.Get("/api/streams").Body, "page": f.Get("/").Body} {
		for _, w := range words {
			if strings.Contains(text, w) {
				f.T.Errorf("the %s has %q", what, w)
			}
		}
	}
}

// ffmpeg publishes to a secret key over RTMP. Viewers of all protocols see the public name, and the
// key appears nowhere else.
func TestHookRenames(t *testing.T) {
	t.Parallel()
	need.Program(t, "ffmpeg")
	h := newTestHook(t, keyed)
	f := serveRTMP(t, func(c *Config) {
		c.Hook = strings.Replace(h.URL, "http://",
			"http://me:passw0rd@", 1) + "/?k3y=1"
	})
	film := filepath.Join(t.TempDir(), "film.mp4")
	if err := os.WriteFile(film, demo.Sample, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	publishing := exec.CommandContext(ctx, "ffmpeg", "-v", "error", "-re", "-stream_loop", "-1",
		"-i", film, "-c", "copy", "-f", "flv",
		"rtmp://"+f.rtmp+"/live/s3cr3t?user=ann4")
	if err := publishing.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cancel(); _ = publishing.Wait() }()

	for _, path := range []string{"/live/show.flv", "/live/inv1te.mp4", "/live/show?pay=v1sa"} {
		w := f.Watcher(path, 0)
		if len(w.Next(10_000)) != 10_000 {
			t.Errorf("the viewer of %s ended", path)
		}
		_ = w.Conn.Close()
	}
	player := f.client("live")
	player.Play("inv1te")
	player.NextTag()
	if res := f.Get("/live/inv1te/index.m3u8?pay=v1sa"); res.Status != 200 ||
		!strings.Contains(res.Body, "media.m3u8?pay=v1sa") {
		t.Errorf("%d %s, want the viewer's query in the addresses", res.Status, res.Body)
	}
	media := f.Get("/live/inv1te/media.m3u8?pay=v1sa&_HLS_msn=1")
	if objects := uris(media.Body); media.Status != 200 ||
		!strings.HasSuffix(objects[0], "?pay=v1sa") ||
		f.Get("/live/inv1te/"+objects[0]).Status != 200 {
		t.Errorf("%d %s, want the viewer's query in every address", media.Status, media.Body)
	}
	if n := len(h.events(hook.PlayBegin)); n != 5 {
		t.Errorf("asked about %d players, want 5: %+v", n, h.events(hook.PlayBegin))
	}
	for _, refused := range []struct {
		method, path string
		status       int
		reason       string
	}{
		{"POST", "/live/wr0ng", 403, "unknown stream key"},
		{"POST", "/live/wr0ng!", 400, "bad stream name"},
		{"GET", "/live/wr0ng", 404, "no such show"},
		{"GET", "/live/wr0ng/index.m3u8", 404, "no such show"},
		{"GET", "/live/wr0ng!.mp4", 400, "bad stream name"},
		{"GET", "/live/wr0ng/a/b", 404, "no such show"},
	} {
		if res := f.Request(refused.method, refused.path, "x"); res.Status != refused.status ||
			!strings.Contains(res.Body, refused.reason) {
			t.Errorf("%s %s: %d %s, want %d with the hook's reason", refused.method, refused.path,
				res.Status, res.Body, refused.status)
		}
	}
	if s := f.client("live").Publish("wr0ng?a=b"); s.Level != "error" ||
		!strings.Contains(s.Description, "unknown stream key") {
		t.Errorf("%+v, want an error with the hook's reason", s)
	}
	if s := f.client("elsewhere").Publish("wr0ng"); s.Level != "error" {
		t.Errorf("%+v, want an error", s)
	}
	eventually(t, "an allowed name without a stream",
		func() bool { return f.Request("HEAD", "/live/guess3d.flv", "").Status == 404 })
	f.keepsSecrets("guess3d", "s3cr3t", "inv1te", "wr0ng", "ann4", "v1sa", "passw0rd", "k3y")
	if got := f.metric(`millrace_refused_total{client="publisher",reason="hook"}`); got != "2" {
		t.Errorf("%s publishers were refused", got)
	}
	begin := h.events(hook.Publish)[0]
	if begin.Protocol != "rtmp" || begin.Address != "127.0.0.1" || begin.Query != "user=ann4" {
		t.Errorf("the hook was sent %+v, want RTMP from 127.0.0.1 with the query", begin)
	}
	f.stop()
	ends := h.events(hook.PublishEnd)
	if len(ends) != 1 || ends[0].ID != begin.ID || ends[0].Name != "show" ||
		ends[0].Bytes < 10_000 || !strings.Contains(ends[0].Reason, "shut") {
		t.Errorf("the hook was sent %+v, want one end of the same viewer with bytes and reason",
			ends)
	}
	if n := len(h.events(hook.PlayEnd)); n != 6 {
		t.Errorf("told of the ends of %d players, want 6: %+v", n, h.events(hook.PlayEnd))
	}
	if strings.Contains(f.Log.String(), "s3cr3t") {
		t.Error("the log has the key")
	}
}

// The log does not contain a publisher's name for its stream, neither if the publisher mistypes the
// path, nor if its token is for another stream.
func TestHookHidesMistypedNames(t *testing.T) {
	h := newTestHook(t, keyed)
	file := filepath.Join(t.TempDir(), "keys")
	key := token.NewKey()
	sign := writeKeys(t, file, key)
	f := serveRTMP(t, func(c *Config) { c.Hook, c.TokenKey = h.URL, file })
	other := sign(token.Publish, "oth3r", time.Hour)
	misspelt, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{
		"stream": "w r0ng", "right": "publish", "exp": time.Now().Add(time.Hour).Unix(),
	}).SignedString([]byte(strings.Fields(key)[2]))
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]int{
		"/app/wr0ng": 404, "/wr0ng": 404, "//live/wr0ng/": 400, "/live/wr0ng": 401,
		"/live/wr0ng?token=" + other:    403,
		"/live/wr0ng?token=" + misspelt: 403, "/live%2Fwr0ng": 404, "/live/wr0ng/": 400,
		"/live/..%2Fwr0ng": 400,
	} {
		if res := f.Request("POST", path, "x"); res.Status != want {
			t.Errorf("%s: %d %s, want %d", path, res.Status, res.Body, want)
		}
	}
	f.client("live").Publish("wr0ng?token=" + other)
	f.Logged("publisher refused", "wrong publish token: the token is for another stream")
	f.Logged("publisher refused", "wrong publish token: the claim stream is invalid")
	f.keepsSecrets("wr0ng", "r0ng", "oth3r", other, misspelt)
}

// If the hook dies, running streams are not affected. New clients get 503, or are allowed.
func TestStreamsContinueWithoutTheHook(t *testing.T) {
	t.Parallel() // waits most of the time
	for _, open := range []bool{false, true} {
		h := newTestHook(t, keyed)
		f := serveRTMP(t, func(c *Config) {
			c.Hook, c.HookOpen, c.HookTimeout, c.DrainTimeout = h.URL, open, 3*time.Second,
				time.Second
		})
		p := f.publisher("s3cr3t")
		w := f.Watcher("/live/show.flv", 0)
		w.Next(1000)
		if res := f.Get("/live/show/index.m3u8"); res.Status != 200 {
			t.Errorf("the master playlist: %d %s, want 200", res.Status, res.Body)
		}
		h.CloseClientConnections()
		h.Close()
		if err := p.SendTags(sampleTags()[2:]...); err != nil {
			t.Error(err)
		}
		w.Next(20_000)
		if res := f.Get("/live/show/media.m3u8"); res.Status != 200 {
			t.Errorf("the media playlist: %d %s, want 200", res.Status, res.Body)
		}
		status := f.Request("HEAD", "/live/show.mp4", "").Status
		if open && status != 200 || !open && status != 503 {
			t.Errorf("open %v: a new player gets %d", open, status)
		}
		if got := f.client("live").Publish("other").Level; (got == "status") != open {
			t.Errorf("open %v: a new publisher gets %s", open, got)
		}
		f.Logged("the hook fails")
		if !open {
			f.keepsSecrets("s3cr3t")
		}
		f.stop()
	}
}

// The limits in a hook's answer are applied.
func TestHookLimits(t *testing.T) {
	h := newTestHook(t, func(q hook.Request) (int, string) {
		switch {
		case q.Event == hook.Publish && q.Stream == "short":
			return 200, `{"allow":true,"max_seconds":0.3}`
		case q.Event == hook.Publish:
			return 200, `{"allow":true,"max_viewers":1}`
		case q.Event == hook.PlayBegin && q.Query == "short=1":
			return 200, `{"allow":true,"max_seconds":0.3}`
		case q.Event == hook.PlayBegin && q.Stream == "bad":
			return 200, `{"allow":true,"name":"a b"}`
		}
		return 200, ""
	})
	f := serveRTMP(t, func(c *Config) { c.Hook = h.URL })
	f.publisher("cam")
	w := f.Watcher("/live/cam.flv", 0)
	if res := f.Get("/live/cam.flv"); res.Status != 503 ||
		!strings.Contains(res.Body, "as many as its publisher is allowed") {
		t.Errorf("%d %s, want 503 that names the publisher's limit", res.Status, res.Body)
	}
	_ = w.Conn.Close()
	eventually(t, "room for a viewer", func() bool { return f.hub.Stats().Viewers == 0 })
	_, _ = io.Copy(io.Discard, f.Watcher("/live/cam.flv?short=1", 0).R)
	f.Logged("viewer ended", "time is up")
	if res := f.Get("/live/bad"); res.Status != 503 ||
		!strings.Contains(res.Body, "gives the stream a") {
		t.Errorf("%d %s, want 503 for an invalid answer of the hook", res.Status, res.Body)
	}
	f.publisher("short")
	f.Logged("publisher ended", "the time is up", "short")
	eventually(t, "the ends", func() bool {
		return len(h.events(hook.PublishEnd)) == 1 && len(h.events(hook.PlayEnd)) == 4
	})
}

// A recording begins with the stream, although the hook is slow. Streams that the hook refuses are
// not recorded.
func TestHookOfRecordings(t *testing.T) {
	wait := make(chan struct{})
	h := newTestHook(t, func(q hook.Request) (int, string) {
		if q.Event == hook.Record {
			<-wait
			if q.Stream == "refused" {
				return 403, ""
			}
		}
		return 200, ""
	})
	dir := t.TempDir()
	f := serve(t, func(c *Config) { c.Hook, c.Record, c.HookTimeout = h.URL, dir, 10*time.Second })
	for _, name := range []string{"cam", "refused"} {
		p := f.Publisher(name)
		p.Send(demo.Sample)
		p.End()
	}
	close(wait)
	eventually(t, "the end of the recording",
		func() bool { return len(h.events(hook.RecordEnd)) == 1 })
	f.stop()
	files := func(name string) (bytes int64) {
		list, _ := filepath.Glob(filepath.Join(dir, name, "*.mp4"))
		for _, file := range list {
			if info, err := os.Stat(file); err == nil {
				bytes += info.Size()
			}
		}
		return bytes
	}
	if n := files("cam"); n < int64(len(demo.Sample))/2 {
		t.Errorf("the recording has %d bytes", n)
	}
	if n := files("refused"); n != 0 {
		t.Errorf("%d bytes of a recording that was refused", n)
	}
	if end := h.events(hook.RecordEnd)[0]; end.Stream != "cam" || end.Bytes == 0 ||
		len(h.events(hook.Record)) != 2 {
		t.Errorf("the hook was sent %+v, want cam with its bytes, after two requests", end)
	}
}

// The node with the client calls the hook. A stream and its players are renamed, and other nodes
// that pull it call no hook.
func TestHookInACluster(t *testing.T) {
	h := newTestHook(t, keyed)
	nodes := serveCluster(t, 2, func(c *Config) { c.Hook = h.URL })
	nodes[0].publisher("s3cr3t")
	w := nodes[1].Watcher("/live/inv1te.flv", 0)
	w.Next(1000)
	if res := nodes[1].Get("/live/inv1te/index.m3u8"); res.Status != 200 {
		t.Errorf("%d %s, want 200", res.Status, res.Body)
	}
	if n, m := len(h.events(hook.Publish)), len(h.events(hook.PlayBegin)); n != 1 || m != 2 {
		t.Errorf("asked about %d publishers and %d players", n, m)
	}
	if q := h.events(hook.PlayBegin)[0]; q.Node != nodes[1].self() {
		t.Errorf("the hook was sent %+v, want the node that serves the viewer", q)
	}
	for _, f := range nodes {
		f.keepsSecrets("s3cr3t", "inv1te")
	}
}

// The hook in docs/hook.md works, and is as short as the page says.
func TestTheDocumentedHook(t *testing.T) {
	python := need.Program(t, "python3")
	_, code, _ := strings.Cut(userPage(t, "hook.md"), "```python\n")
	code, _, ok := strings.Cut(code, "```")
	if !ok || !strings.Contains(code, "9000") {
		t.Fatal("the page has no hook")
	}
	port := strconv.Itoa(nettest.FreePort(t))
	cmd := exec.Command(python, "-c", strings.ReplaceAll(code, "9000", port))
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	eventually(t, "the hook", func() bool {
		conn, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	f := serveRTMP(t, func(c *Config) { c.Hook = "http://127.0.0.1:" + port + "/" })
	f.publisher("s3cr3t")
	f.Watcher("/live/show.flv", 0).Next(1000)
	if res := f.Request("POST", "/live/show", "x"); res.Status != 403 ||
		!strings.Contains(res.Body, "unknown stream key") {
		t.Errorf("%d %s, want 403 with the hook's reason\n%s", res.Status, res.Body, &said)
	}
}

// The hook decides about a second publisher of a public name, and after that --takeover does. Each
// publisher has its own end.
func TestHookAndTakeover(t *testing.T) {
	t.Parallel()
	h := newTestHook(t, func(q hook.Request) (int, string) {
		if q.Event == hook.Publish {
			return 200, `{"allow":true,"name":"show"}`
		}
		return 200, ""
	})
	f := serveRTMP(t, func(c *Config) { c.Hook = h.URL })
	f.publisher("k3y-a")
	second := f.client("live")
	if s := second.Publish("k3y-b"); s.Level != "status" {
		t.Fatalf("publishing was refused: %+v", s)
	}
	eventually(t, "the first one's end", func() bool { return len(h.events(hook.PublishEnd)) == 1 })
	if end := h.events(hook.PublishEnd)[0]; end.Stream != "k3y-a" ||
		end.ID != h.events(hook.Publish)[0].ID ||
		!strings.Contains(end.Reason, "took over") {
		t.Errorf("the hook was sent %+v, want the end of k3y-a by a takeover", end)
	}
	f.keepsSecrets("k3y-a", "k3y-b")
}

// The hook is told about the end of a player that has waited for a stream and disconnects, over any
// protocol.
func TestHookOfWaitingPlayers(t *testing.T) {
	h := newTestHook(t, keyed)
	f := serveRTMP(t, func(c *Config) { c.Hook = h.URL })
	byRTMP := f.client("live")
	byRTMP.Play("inv1te")
	byHTTP := f.Ask("/live/inv1te.flv", 0)
	eventually(t, "both", func() bool { return len(h.events(hook.PlayBegin)) == 2 })
	_, _ = byRTMP.Conn.Close(), byHTTP.Conn.Close()
	eventually(t, "both ends", func() bool { return len(h.events(hook.PlayEnd)) == 2 })
	f.keepsSecrets("inv1te")
}
