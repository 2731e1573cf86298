package server

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/server/internal/live"
)

// Each refusal over HTTP and RTMP is counted with its reason, and logged.
func TestRefusalsAreCountedAndLogged(t *testing.T) {
	t.Parallel()
	start := func(headerTimeout time.Duration) *rtmpFixture {
		return serveRTMP(t, func(c *Config) {
			c.PublishToken, c.ReadToken, c.Takeover = "p", "r", live.TakeoverNever
			c.MaxStreams, c.MaxViewers, c.ViewerWait = 1, 1, time.Millisecond
			c.HeaderTimeout = headerTimeout
		})
	}
	f := start(testTimeout)
	f.publisher("cam?token=p")
	f.published("cam", 1)
	get := func(method, path string, header ...string) func() {
		return func() { f.Request(method, path, "", header...) }
	}
	publish := func(app, key string) func() {
		return func() {
			if s := f.client(app).Publish(key); s.Level != "error" {
				t.Errorf("%s/%s: %+v, want an error", app, key, s)
			}
		}
	}
	play := func(app, key string) func() {
		return func() {
			c := f.client(app)
			c.Play(key)
			if s := c.AwaitStatus(); s.Level != "error" {
				t.Errorf("%s/%s: %+v, want an error", app, key, s)
			}
		}
	}
	say := func(text string) func() {
		return func() {
			conn := dial(t, f.rtmp, 0)
			_, _ = conn.Write([]byte(text))
			if text == "" {
				_ = conn.Close()
			}
		}
	}
	const warn, debug = "level=WARN", "level=DEBUG"
	check := func(do func(), client, reason, level, says string) {
		t.Helper()
		metric := fmt.Sprintf("millrace_refused_total{client=%q,reason=%q}", client, reason)
		value := func() (n int) {
			for line := range strings.Lines(f.Get("/metrics?token=r").Body) {
				if text, ok := strings.CutPrefix(line, metric+" "); ok {
					_, _ = fmt.Sscan(text, &n)
					return n
				}
			}
			t.Fatalf("there is no %s", metric)
			return 0
		}
		before, logged := value(), len(f.Log.String())
		do()
		eventually(t, metric, func() bool { return value() == before+1 })
		eventually(t, says, func() bool {
			for line := range strings.Lines(f.Log.String()[logged:]) {
				if strings.Contains(line, level) && strings.Contains(line, " refused") &&
					strings.Contains(line, says) {
					return true
				}
			}
			return false
		})
	}
	check(get("POST", "/live/a.mp4"), "publisher", "bad_name", warn, "path=/live/a.mp4")
	check(get("POST", "/elsewhere"), "publisher", "path", warn, "nothing here")
	check(get("POST", "/metrics"), "publisher", "method", warn, "POST")
	check(get("POST", "/live/a"), "publisher", "no_token", warn, "status=401")
	check(get("POST", "/live/a?token=x"), "publisher", "forbidden", warn, "wrong publish token")
	check(get("POST", "/live/cam?token=p"), "publisher", "conflict", warn, "--takeover never")
	check(get("POST", "/live/more?token=p"), "publisher", "limit", warn, "--max-streams")
	check(publish("live", "a//b?token=p"), "publisher", "bad_name", warn, "stream=live/a//b")
	check(publish("app", "a?token=p"), "publisher", "path", warn, "stream=app/a")
	check(publish("live", "a"), "publisher", "no_token", warn, "status=401")
	check(publish("live", "a?token=x"), "publisher", "forbidden", warn, "status=403")
	check(publish("live", "cam?token=p"), "publisher", "conflict", warn, "status=409")
	check(publish("live", "more?token=p"), "publisher", "limit", warn, "status=503")

	check(get("GET", "/live/cam"), "viewer", "no_token", warn, "path=/live/cam")
	check(get("GET", "/live/cam?token=x"), "viewer", "forbidden", warn, "wrong token")
	check(get("GET", "/live/a%20b?token=r"), "viewer", "bad_name", warn, "bad stream name")
	check(get("GET", "/live/cam?start=x&token=r"), "viewer", "bad_request", warn, "bad start")
	check(get("GET", "/live/none?token=r"), "viewer", "not_found", warn, "no publisher")
	check(get("GET", "/live/cam/none.m4s?token=r"), "viewer", "path", warn, "index.m3u8")
	check(play("app", "cam?token=r"), "viewer", "path", warn, "stream=app/cam")
	check(play("live", "cam"), "viewer", "no_token", warn, "status=401")
	check(play("live", "none?token=r"), "viewer", "not_found", warn, "status=404")
	w := f.client("live")
	w.Play("cam?token=r")
	w.NextTag()
	check(get("GET", "/live/cam?token=r"), "viewer", "limit", warn, "--max-viewers")
	check(play("live", "cam?token=r"), "viewer", "limit", warn, "--max-viewers")

	check(get("GET", "/wp-login.php?token=r"), "reader", "path", debug, "nothing here")
	check(get("GET", "/"), "reader", "no_token", debug, "path=/")
	check(get("GET", "/?token=x"), "reader", "forbidden", warn, "wrong token")
	check(get("GET", "/", "Millrace-Cluster: x"), "node", "forbidden", warn, "no node of a cluster")
	check(say(""), "unknown", "silent", debug, "RTMP client")
	check(say("GET / HTTP/1.1\r\n\r\n"), "unknown", "protocol", warn, "RTMP client")
	if strings.Contains(f.Log.String(), "token=p") {
		t.Error("the log has a token")
	}

	f = start(time.Second) // silent clients are disconnected after it, and this test's requests must not be
	check(say("\x03"), "unknown", "silent", debug, "RTMP client")
}
