package server

import (
	"fmt"
	"math"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// request makes a request with headers given as "Name: value".
func (f *fixture) request(method, path, body string, header ...string) response {
	f.t.Helper()
	req, err := http.NewRequest(method, f.url(path), strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	for _, h := range header {
		name, value, ok := strings.Cut(h, ": ")
		if name == "Host" {
			req.Host = value
		} else if ok {
			req.Header.Set(name, value)
		}
	}
	return f.do(req)
}

func TestStatus(t *testing.T) {
	flvBody := string(newScript(1, 2, 100).whole())
	long := strings.Repeat("n", 64)
	for _, tt := range []struct {
		method, path, body string
		header             string
		want               int
		says               string // in the body
	}{
		{method: "POST", path: "/live/a", body: flvBody, want: 200, says: `"format":"flv"`},
		{method: "PUT", path: "/live/a", body: flvBody, want: 200, says: `"frames":7`},
		{method: "POST", path: "/live/a.flv", body: flvBody, want: 200, says: `"stream":"a"`},
		{method: "POST", path: "/live/" + long, body: flvBody, want: 200},
		{method: "POST", path: "/live/a-b_c.D9", body: "bytes", want: 200, says: `"format":"raw"`},
		{method: "POST", path: "/live/a", body: flvBody, header: "Expect: 100-continue", want: 200},
		{method: "POST", path: "/live/a", body: flvBody, header: "Origin: http://127.0.0.1", want: 403, says: "another site"}, // another port
		{method: "POST", path: "/live/a", body: flvBody, header: "Origin: https://evil.example", want: 403, says: "another site"},
		{method: "POST", path: "/live/a", body: flvBody, header: "Sec-Fetch-Site: cross-site", want: 403, says: "another site"},
		{method: "POST", path: "/live/a", body: flvBody, header: "Host: evil.example", want: 403, says: "--publish-token"},
		{method: "POST", path: "/live/a", body: flvBody, header: "Host: localhost:1", want: 200},

		{method: "POST", path: "/live/a", want: 400, says: "empty"},
		{method: "POST", path: "/live/" + long + "n", body: flvBody, want: 400, says: "bad stream name"},
		{method: "POST", path: "/live/a%2Fb", body: flvBody, want: 400, says: "bad stream name"},
		{method: "POST", path: "/live/%00", body: flvBody, want: 400, says: "bad stream name"},
		{method: "POST", path: "/live/caf%C3%A9", body: flvBody, want: 400, says: "bad stream name"},
		{method: "POST", path: "/live/a.mp4", body: flvBody, want: 400, says: "asks for a format"},
		{method: "POST", path: "/live/...", body: flvBody, want: 400, says: "dots"},
		{method: "POST", path: "/live/", body: flvBody, want: 404},
		{method: "POST", path: "/live/a/b", body: flvBody, want: 404},
		{method: "POST", path: "/live/a", body: flvBody[:len(flvBody)-1], want: 400, says: "unexpected EOF"},
		{method: "POST", path: "/live/a", body: "FLV\x01\x05\x00\x00\x00\x09", want: 400, says: "unexpected EOF"},

		{method: "GET", path: "/live/nobody", want: 404, says: `no stream "nobody"`},
		{method: "HEAD", path: "/live/nobody", want: 404},
		{method: "GET", path: "/live/a%20b", want: 400, says: "bad stream name"},
		{method: "GET", path: "/live/.flv", want: 400, says: "bad stream name"},
		{method: "GET", path: "/live/a.flv.mp4", want: 400, says: "asks for a format"},
		{method: "DELETE", path: "/live/a", want: 405, says: "DELETE"},
		{method: "OPTIONS", path: "/live/a", want: 204},

		{method: "GET", path: "/", want: 200, says: "<html"},
		{method: "GET", path: "/healthz", want: 200, says: "ok"},
		{method: "GET", path: "/metrics", want: 200, says: "millrace_streams 0"},
		{method: "GET", path: "/api/streams", want: 200, says: `"publish":"open","loopback":true},"streams":[]`},
		{method: "POST", path: "/api/streams", want: 405},
		{method: "POST", path: "/healthz", want: 405},
		{method: "POST", path: "/metrics", want: 405},
		{method: "POST", path: "/", want: 405},
		{method: "GET", path: "/debug/pprof/", want: 404}, // on the admin listener only
		{method: "GET", path: "/elsewhere", want: 404, says: "nothing here"},
		{method: "GET", path: "/live", want: 404},
	} {
		name := strings.TrimSpace(fmt.Sprintf("%s %.30s %s", tt.method, tt.path, tt.header))
		t.Run(name, func(t *testing.T) {
			f := serve(t, func(c *Config) { c.ViewerWait = 10 * time.Millisecond })
			res := f.request(tt.method, tt.path, tt.body, tt.header)
			if res.status != tt.want || !strings.Contains(res.body, tt.says) {
				t.Errorf("%d %.200q, want %d with %q", res.status, res.body, tt.want, tt.says)
			}
			if res.status == 405 && res.header.Get("Allow") == "" {
				t.Error("405 without Allow")
			}
		})
	}
}

func TestHeadAnswersTheHeaders(t *testing.T) {
	f := serve(t, nil)
	sc := newScript(1, 2, 100)
	p := f.publish("cam")
	p.send(sc.whole())
	f.published("cam", 100)
	for path, want := range map[string]string{"/live/cam": "video/x-flv", "/live/cam.flv": "video/x-flv", "/live/cam.mp4": "video/mp4"} {
		res := f.request("HEAD", path, "")
		if res.status != 200 || res.header.Get("Content-Type") != want {
			t.Errorf("HEAD %s: %d %s, want %s", path, res.status, res.header.Get("Content-Type"), want)
		}
	}
	if n := f.census.count(); n != 0 {
		t.Errorf("%d viewers after HEAD", n)
	}
	p.end()
}

func TestASecondPublisherGets409(t *testing.T) {
	f := serve(t, nil)
	sc := newScript(1, 2, 100)
	first := f.publish("cam")
	first.send(sc.start())
	f.published("cam", 1)
	if res := f.publish("cam").wait(); res.status != http.StatusConflict || !strings.Contains(res.body, "publisher already") {
		t.Errorf("second: %d %s", res.status, res.body)
	}
	first.send(sc.tags[0])
	if res := first.end(); res.status != 200 {
		t.Errorf("first: %d %s", res.status, res.body)
	}
	f.logged("publisher refused", "status=409")
}

func TestFormsThatAStreamCannotBeHadIn(t *testing.T) {
	f := serve(t, nil)
	raw := f.publish("raw")
	raw.send([]byte("bytes"))
	f.published("raw", 5)
	odd := f.publish("odd")
	odd.send([]byte("FLV\x01\x01\x00\x00\x00\x09\x00\x00\x00\x00"))
	for _, at := range []uint32{0, hopeWait} { // then it is known that nothing else will come
		odd.send(flvTag(9, at, []byte("\x12Sorenson")))
	}
	f.published("odd", 2*24)
	for path, want := range map[string]int{
		"/live/raw.flv": 406, "/live/raw.mp4": 406, "/live/odd.mp4": 406,
	} {
		if res := f.get(path); res.status != want {
			t.Errorf("GET %s: %d %s", path, res.status, res.body)
		}
	}
	raw.end()
	odd.end()
}

func TestLimitsOnStreamsAndViewers(t *testing.T) {
	f := serve(t, func(c *Config) { c.MaxStreams, c.MaxViewers, c.MaxStreamViewers = 1, 2, 1 })
	p := f.publish("one")
	p.send([]byte("x"))
	f.published("one", 1)
	if res := f.publish("two").wait(); res.status != 503 || !strings.Contains(res.body, "--max-streams") {
		t.Errorf("second stream: %d %s", res.status, res.body)
	}
	w := f.watch("/live/one", 0)
	if res := f.get("/live/one"); res.status != 503 || !strings.Contains(res.body, "--max-stream-viewers") {
		t.Errorf("second viewer: %d %s", res.status, res.body)
	}
	waits := f.ask("/live/other", 0)
	f.waiting("other", 1)
	if res := f.get("/live/one"); res.status != 503 || !strings.Contains(res.body, "--max-viewers") {
		t.Errorf("third viewer in all: %d %s", res.status, res.body)
	}
	_ = waits.conn.Close()
	eventually(t, "the one who waited to be gone", func() bool {
		f.census.mu.Lock()
		defer f.census.mu.Unlock()
		return f.census.admitted == 1
	})
	p.end()
	w.rest()
}

func TestPublishToken(t *testing.T) {
	const secret = "s3cret"
	for _, tt := range []struct {
		path, header string
		want         int
	}{
		{"/live/a", "", 401},
		{"/live/a?token=", "", 401},
		{"/live/a?token=wrong", "", 403},
		{"/live/a?token=" + secret + "x", "", 403},
		{"/live/a?token=" + secret, "", 200},
		{"/live/a", "Authorization: Bearer " + secret, 200},
		{"/live/a", "Authorization: bearer " + secret, 200},
		{"/live/a", "Authorization: Bearer wrong", 403},
		{"/live/a", "Authorization: Basic " + secret, 401},
	} {
		f := serve(t, func(c *Config) { c.PublishToken = secret })
		if res := f.request("POST", tt.path, "bytes", tt.header); res.status != tt.want {
			t.Errorf("%s %s: %d %s, want %d", tt.path, tt.header, res.status, res.body, tt.want)
		}
		if strings.Contains(f.log.String(), secret) {
			t.Error("the token is in the log")
		}
	}
}

// A listener that other machines can reach takes publishers with the token only, and says so when it starts without.
func TestPublishingThroughAPublicListener(t *testing.T) {
	public := &net.TCPAddr{IP: net.IPv4zero, Port: 8080}
	r, _ := http.NewRequest("POST", "http://127.0.0.1:8080/live/a?token=t", nil)
	for g, want := range map[*gate]string{newGate("", public): "off", newGate("t", public): "token", newGate("", &net.TCPAddr{IP: net.IPv6loopback}): "open"} {
		if got := g.policy(); got != want {
			t.Errorf("token %q, loopback %v: policy %s, want %s", g.token, g.loopback, got, want)
		}
	}
	if status, reason := newGate("", public).check(r); status != 403 || !strings.Contains(reason, "--publish-token") {
		t.Errorf("without a token: %d %s", status, reason)
	}
	if status, reason := newGate("t", public).check(r); status != 0 {
		t.Errorf("with the token: %d %s", status, reason)
	}
	for addr, want := range map[string]bool{
		"127.0.0.1:1": true, "127.8.9.1:1": true, "[::1]:1": true, "0.0.0.0:1": false, "[::]:1": false, "192.0.2.1:1": false,
	} {
		tcp, err := net.ResolveTCPAddr("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		if isLoopback(tcp) != want {
			t.Errorf("isLoopback(%s) is %v", addr, !want)
		}
	}
	for host, want := range map[string]bool{
		"localhost": true, "LOCALHOST:80": true, "a.localhost": true, "127.0.0.1": true, "[::1]:80": true, "[::1]": true, "": true,
		"example.org": false, "127.0.0.1.example.org": false, "192.0.2.1:80": false, "localhost.example.org": false,
	} {
		if isLocalName(host) != want {
			t.Errorf("isLocalName(%q) is %v", host, !want)
		}
	}
}

func TestConfigIsChecked(t *testing.T) {
	for flag, change := range map[string]func(*Config){
		"max-streams":         func(c *Config) { c.MaxStreams = 0 },
		"latency":             func(c *Config) { c.Latency = -1 },
		"--latency is":        func(c *Config) { c.Latency = time.Minute },
		"lag-policy":          func(c *Config) { c.LagPolicy = "wait" },
		"max-tag-bytes":       func(c *Config) { c.MaxTagBytes = 32 << 20 },
		"1048591 bytes a tag": func(c *Config) { c.MaxTagBytes, c.KeepBytes = 1<<20, 1<<20 },
		"keep-frames":         func(c *Config) { c.KeepFrames = math.MaxInt32 },
		"files-open":          func(c *Config) { c.FilesOpen = 1 << 30 },
		"stall-timeout":       func(c *Config) { c.StallTimeout = 0 },
	} {
		cfg := Defaults()
		change(&cfg)
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("%s: %v", flag, err)
		}
	}
	if _, err := New(Defaults()); err != nil {
		t.Errorf("the defaults: %v", err)
	}
}

func TestViewersWaitForAPublisher(t *testing.T) {
	t.Run("in vain", func(t *testing.T) {
		f := serve(t, func(c *Config) { c.ViewerWait = 20 * time.Millisecond })
		if res := f.get("/live/cam"); res.status != 404 {
			t.Errorf("%d %s", res.status, res.body)
		}
		if n := len(f.registry.waiting); n != 0 {
			t.Errorf("%d names are still waited for", n)
		}
	})
	t.Run("not at all", func(t *testing.T) {
		f := serve(t, func(c *Config) { c.ViewerWait = 0 })
		if res := f.get("/live/cam"); res.status != 404 {
			t.Errorf("%d %s", res.status, res.body)
		}
	})
	t.Run("also who comes when a stream ends", func(t *testing.T) {
		f := serve(t, nil)
		old := f.publish("cam")
		old.send([]byte("the last"))
		eventually(t, "the stream is there", func() bool { return f.registry.find("cam") != nil })
		st := f.registry.find("cam")
		st.mu.Lock() // the viewer finds the stream, but cannot enter it yet
		w := f.ask("/live/cam", 0)
		eventually(t, "the viewer comes", func() bool {
			f.census.mu.Lock()
			defer f.census.mu.Unlock()
			return f.census.admitted == 1
		})
		st.closed = true
		f.registry.free(st)
		st.mu.Unlock()
		f.waiting("cam", 1)
		p := f.publish("cam")
		p.send([]byte("the next"))
		w.begin()
		p.end()
		if rest := w.rest(); string(rest) != "the next" {
			t.Errorf("%q", rest)
		}
		old.end()
	})
	t.Run("until the server stops", func(t *testing.T) {
		f := serve(t, nil)
		w := f.ask("/live/cam", 0)
		f.waiting("cam", 1)
		f.stop()
		res, err := http.ReadResponse(w.r, nil)
		if err != nil || res.StatusCode != 503 {
			t.Errorf("%v, %v", res, err)
		}
	})
	t.Run("for one who sends nothing yet", func(t *testing.T) {
		f := serve(t, nil)
		p := f.publish("cam")
		eventually(t, "the claim", func() bool {
			f.registry.mu.Lock()
			defer f.registry.mu.Unlock()
			return f.registry.streams["cam"] != nil
		})
		w := f.ask("/live/cam", 0)
		f.waiting("cam", 1)
		p.send([]byte("x"))
		w.begin()
		w.read(1)
		p.end()
	})
}

func TestAdminListener(t *testing.T) {
	cfg := Defaults()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	admin, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := serveOn(t, cfg, &logBook{}, ln, admin)
	side := *f
	side.addr = admin.Addr().String()
	for path, says := range map[string]string{"/debug/pprof/": "goroutine", "/metrics": "go_goroutines", "/healthz": "ok"} {
		if res := side.get(path); res.status != 200 || !strings.Contains(res.body, says) {
			t.Errorf("%s: %d", path, res.status)
		}
	}
	if res := side.get("/live/x"); res.status != 404 {
		t.Errorf("/live/x on the admin listener: %d", res.status)
	}
}

// A reachable listener says that other machines can reach it.
type reachable struct{ net.Listener }

func (reachable) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4zero, Port: 8080} }

// Where a publisher is, the admin listener tells, and the other one only if no other machine reaches it.
func TestWhoIsToldThePublishersAddresses(t *testing.T) {
	for _, public := range []bool{false, true} {
		cfg := Defaults()
		cfg.PublishToken, cfg.Demo = "t", true
		var at [2]net.Listener
		for i := range at {
			var err error
			if at[i], err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
				t.Fatal(err)
			}
		}
		ln := at[0]
		if public {
			ln = reachable{ln}
		}
		f := serveOn(t, cfg, &logBook{}, ln, at[1])
		f.addr = at[0].Addr().String()
		side := *f
		side.addr = at[1].Addr().String()
		p := f.publish("cam?token=t")
		p.send(newScript(1, 2, 100).whole())
		f.published("cam", 100)
		f.published("demo", 1)
		const address = `"publisher":"127.0.0.1:`
		if res := side.get("/api/streams"); res.status != 200 || !strings.Contains(res.body, address) {
			t.Errorf("public %v: the admin listener says %s", public, res.body)
		}
		res := f.get("/api/streams")
		if strings.Contains(res.body, address) == public || !strings.Contains(res.body, `"publisher":"demo"`) {
			t.Errorf("public %v: everybody is told %s", public, res.body)
		}
		p.end()
	}
}

// A viewer who has waited for the publisher and then finds the stream full leaves nothing behind in the ring.
func TestRefusedWaitersLeaveNoCursor(t *testing.T) {
	f := serve(t, func(c *Config) { c.MaxStreamViewers = 1; c.LagPolicy = Drop })
	for range 4 {
		f.ask("/live/x.flv", 0)
	}
	f.waiting("x", 4)
	p := f.publish("x")
	p.send(newScript(3, 10, 2000).whole())
	eventually(t, "one viewer, and one cursor", func() bool {
		st := f.registry.find("x")
		return st != nil && st.live != nil && f.census.count() == 1 && st.live.ring.Stats().Cursors == 1
	})
	p.end()
}
