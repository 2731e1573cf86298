package server

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestPublishToken(t *testing.T) {
	const secret = "s3cret"
	f := serve(t, func(c *Config) { c.PublishToken = secret })
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
		if res := f.Request("POST", tt.path, "bytes", tt.header); res.Status != tt.want {
			t.Errorf("%s %s: %d %s, want %d", tt.path, tt.header, res.Status, res.Body, tt.want)
		}
	}
	if strings.Contains(f.Log.String(), secret) {
		t.Error("the token is in the log")
	}
}

// A page of another site that resolves its own name to 127.0.0.1 cannot read from a server that
// only this machine can reach.
func TestReadersOfALoopbackListenerNameThisMachine(t *testing.T) {
	f := serve(t, nil)
	for _, path := range []string{"/", "/page/app.js", "/api/streams", "/metrics", "/live/a",
		"/files/", "/blobs/a"} {
		res := f.Request("GET", path, "", "Host: evil.example:8080")
		if res.Status != 403 || !strings.Contains(res.Body, "this machine only") {
			t.Errorf("%s: %d %s, want 403 that names this machine", path, res.Status, res.Body)
		}
	}
}

// The admin listener does not show the command line, which may contain tokens and passwords. It
// checks Host as the main listener does.
func TestAdminListener(t *testing.T) {
	ln, admin := listen(t), listen(t)
	f := serveOn(t, Defaults(), &logBook{}, Listeners{Main: ln, Admin: admin})
	side := *f
	side.Addr = admin.Addr().String()
	for path, want := range map[string]string{
		"/debug/pprof/":                  "200 goroutine",
		"/debug/pprof/symbol":            "200 num_symbols",
		"/debug/pprof/heap?debug=1":      "200 heap profile",
		"/debug/pprof/goroutine?debug=2": "200 goroutine",
		"/debug/pprof/cmdline":           "404 ",
		"/metrics":                       "200 go_goroutines",
		"/api/streams":                   "200 streams",
		"/healthz":                       "200 ok",
		"/live/x":                        "404 ",
		"/":                              "200 operator",
		"/page/app.js":                   "200 ",
		"/page/index.html":               "404 ",
	} {
		status, says, _ := strings.Cut(want, " ")
		res := side.Get(path)
		if res.Status != int((status[0]-'0'))*100+int(status[2]-'0') ||
			!strings.Contains(res.Body, says) {
			t.Errorf("%s: %d %.200s, want %s", path, res.Status, res.Body, want)
		}
		if slices.ContainsFunc(os.Args, func(arg string) bool {
			return len(arg) > 8 && strings.Contains(res.Body, arg)
		}) {
			t.Errorf("%s shows the command line", path)
		}
		res = side.Request("GET", path, "", "Host: evil.example")
		if path != "/healthz" && res.Status != 403 {
			t.Errorf("%s under another host: %d", path, res.Status)
		}
	}
	if res := side.Request("POST", "/debug/pprof/profile?seconds=1", ""); res.Status != 405 {
		t.Errorf("POST: %d, want 405", res.Status)
	}
}

// listen listens on a loopback port.
func listen(t *testing.T) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

const readSecret, writeSecret = "re@d", "wr1te"

// serveReaders starts a server with a token for readers and another for publishers. It has a film
// and a value.
func serveReaders(t *testing.T) *fixture {
	t.Helper()
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "film"), []byte("a film"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := serve(t, func(c *Config) {
		c.ReadToken, c.PublishToken = readSecret, writeSecret
		c.Root, c.FilesListing, c.Blobs = root, true, t.TempDir()
	})
	if res := f.Request("PUT", "/blobs/a", "value",
		"Authorization: Bearer "+writeSecret); res.Status != http.StatusCreated {
		t.Fatalf("PUT: %d %s, want 201", res.Status, res.Body)
	}
	return f
}

func TestReadToken(t *testing.T) {
	f := serveReaders(t)
	p := f.Publisher("a?token=" + writeSecret)
	p.Send([]byte("a stream of bytes"))
	f.published("a", 1)
	defer p.End()
	const html = "Accept: text/html"
	opened := f.Request("GET", "/?token="+readSecret, "", html)
	cookie := "Cookie: " + strings.Split(opened.Header.Get("Set-Cookie"), ";")[0]
	for _, path := range []string{"/", "/page/app.js", "/files/", "/files/film", "/blobs/a",
		"/api/streams", "/metrics", "/none"} {
		for _, tt := range []struct {
			query, header string
			want          int // 0: the status without a --read-token
		}{
			{"", "", 401},
			{"?token=", "", 401},
			{"?token=wrong", "", 403},
			{"", "Authorization: Bearer wrong", 403},
			{"?token=wrong", cookie, 403},
			{"", cookie + "x", 401},
			{"", strings.Split(cookie, "=")[0] + "=" + readSecret, 401},
			{"?token=" + readSecret, "", 0},
			{"?token=" + writeSecret, "", 0},
			{"", "Authorization: Bearer " + readSecret, 0},
			{"", cookie, 0},
		} {
			want := tt.want
			if want == 0 {
				want = http.StatusOK
			}
			if path == "/none" && tt.want == 0 {
				want = http.StatusNotFound
			}
			for _, method := range []string{"GET", "HEAD"} {
				res := f.Request(method, path+tt.query, "", tt.header)
				if res.Status != want {
					t.Errorf("%s %s%s %s: %d %s, want %d", method, path, tt.query, tt.header,
						res.Status, res.Body, want)
				}
				if want == 401 && res.Header.Get("WWW-Authenticate") == "" {
					t.Errorf("%s %s: no WWW-Authenticate", method, path)
				}
			}
		}
	}
	for _, path := range []string{"/live/a", "/live/a.flv", "/live/a.mp4"} {
		if res := f.Get(path); res.Status != 401 ||
			res.Header.Get("Access-Control-Allow-Origin") != "*" {
			t.Errorf("%s: %d %v, want 401 with CORS headers", path, res.Status, res.Header)
		}
	}
	if strings.Contains(f.Log.String(), readSecret) ||
		strings.Contains(f.Log.String(), writeSecret) {
		t.Error("a token is in the log")
	}
}

// With the cookie, a viewer can watch the stream, but cannot publish or write.
func TestReadCookie(t *testing.T) {
	f := serveReaders(t)
	opened := f.Request("GET", "/files/?token="+readSecret, "", "Accept: text/html,*/*")
	set := opened.Header.Get("Set-Cookie")
	for _, want := range []string{"HttpOnly", "SameSite=Strict", "Path=/"} {
		if !strings.Contains(set, want) {
			t.Errorf("the cookie %q has no %s", set, want)
		}
	}
	if strings.Contains(set, readSecret) {
		t.Errorf("the cookie %q has the token in it", set)
	}
	if got := opened.Header.Get("Referrer-Policy"); got != "same-origin" {
		t.Errorf("Referrer-Policy is %q, want same-origin", got)
	}
	cookie := "Cookie: " + strings.Split(set, ";")[0]
	for _, tt := range []struct{ method, path string }{{"PUT", "/blobs/b"}, {"DELETE", "/blobs/a"},
		{"POST", "/live/a"}} {
		if res := f.Request(tt.method, tt.path, "x", cookie); res.Status != 401 {
			t.Errorf("%s %s with the cookie: %d %s, want 401", tt.method, tt.path, res.Status,
				res.Body)
		}
		if res := f.Request(tt.method, tt.path+"?token="+readSecret, "x"); res.Status != 403 {
			t.Errorf("%s %s with the readers' token: %d %s", tt.method, tt.path, res.Status,
				res.Body)
		}
	}
	res := f.Request("GET", "/files/film", "", cookie)
	if res.Body != "a film" {
		t.Errorf("%d %s %v, want the file", res.Status, res.Body, res.Header)
	}
	// Responses that need a token are not for shared caches, even if each use is validated with the
	// server.
	for path, want := range map[string]string{"/files/film": "private", "/": "private, no-cache",
		"/blobs/a": "private, no-cache", "/api/streams": "no-store"} {
		res := f.Request("GET", path, "", cookie)
		if got := strings.Join(res.Header["Cache-Control"], ", "); res.Status != 200 ||
			got != want {
			t.Errorf("%s: %d, Cache-Control %q, want %q", path, res.Status, got, want)
		}
	}
	if got := f.Request("GET", "/files/film?token="+readSecret, "",
		"Accept: */*").Header.Get("Set-Cookie"); got != "" {
		t.Errorf("a player got the cookie %q", got)
	}
	f.Logged("reading needs the token", "/?token=TOKEN")
	if res := f.Get("/healthz"); res.Status != 200 {
		t.Errorf("/healthz: %d, want 200", res.Status)
	}
	if res := f.Request("OPTIONS", "/live/a", ""); res.Status != http.StatusNoContent {
		t.Errorf("OPTIONS: %d %s, want 204", res.Status, res.Body)
	}
}

// Without a --read-token no token is needed, and shared caches may keep files.
func TestNoReadToken(t *testing.T) {
	f := serve(t, func(c *Config) { c.PublishToken = writeSecret })
	res := f.Request("GET", "/?token=x", "", "Accept: text/html")
	if res.Status != 200 || res.Header.Get("Set-Cookie") != "" ||
		res.Header.Get("Cache-Control") == "private" {
		t.Errorf("%d %v, want 200 without a cookie and not private", res.Status, res.Header)
	}
}
