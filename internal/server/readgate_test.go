package server

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const readSecret, writeSecret = "re@d", "wr1te"

// serveReaders starts a server that asks readers for a token, with a film and a value, and publishers for another.
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
	if res := f.request("PUT", "/blobs/a", "value", "Authorization: Bearer "+writeSecret); res.status != http.StatusCreated {
		t.Fatalf("PUT: %d %s", res.status, res.body)
	}
	return f
}

func TestReadToken(t *testing.T) {
	f := serveReaders(t)
	p := f.publish("a?token=" + writeSecret)
	p.send([]byte("a stream of bytes"))
	f.published("a", 1)
	defer p.end()
	const html = "Accept: text/html"
	opened := f.request("GET", "/?token="+readSecret, "", html)
	cookie := "Cookie: " + strings.Split(opened.header.Get("Set-Cookie"), ";")[0]
	for _, path := range []string{"/", "/page/app.js", "/files/", "/files/film", "/blobs/a", "/api/streams", "/metrics", "/none"} {
		for _, tt := range []struct {
			query, header string
			want          int // 0: what anybody gets without a --read-token
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
				res := f.request(method, path+tt.query, "", tt.header)
				if res.status != want {
					t.Errorf("%s %s%s %s: %d %s, want %d", method, path, tt.query, tt.header, res.status, res.body, want)
				}
				if want == 401 && res.header.Get("WWW-Authenticate") == "" {
					t.Errorf("%s %s: no WWW-Authenticate", method, path)
				}
			}
		}
	}
	for _, path := range []string{"/live/a", "/live/a.flv", "/live/a.mp4"} {
		if res := f.get(path); res.status != 401 || res.header.Get("Access-Control-Allow-Origin") != "*" {
			t.Errorf("%s: %d %v", path, res.status, res.header)
		}
	}
	if strings.Contains(f.log.String(), readSecret) || strings.Contains(f.log.String(), writeSecret) {
		t.Error("a token is in the log")
	}
}

// With the cookie a viewer sees the stream, and cannot publish or write.
func TestReadCookie(t *testing.T) {
	f := serveReaders(t)
	opened := f.request("GET", "/files/?token="+readSecret, "", "Accept: text/html,*/*")
	set := opened.header.Get("Set-Cookie")
	for _, want := range []string{"HttpOnly", "SameSite=Strict", "Path=/"} {
		if !strings.Contains(set, want) {
			t.Errorf("the cookie %q has no %s", set, want)
		}
	}
	if strings.Contains(set, readSecret) {
		t.Errorf("the cookie %q has the token in it", set)
	}
	if got := opened.header.Get("Referrer-Policy"); got != "same-origin" {
		t.Errorf("Referrer-Policy %q", got)
	}
	cookie := "Cookie: " + strings.Split(set, ";")[0]
	for _, tt := range []struct{ method, path string }{{"PUT", "/blobs/b"}, {"DELETE", "/blobs/a"}, {"POST", "/live/a"}} {
		if res := f.request(tt.method, tt.path, "x", cookie); res.status != 401 {
			t.Errorf("%s %s: %d %s", tt.method, tt.path, res.status, res.body)
		}
		if res := f.request(tt.method, tt.path+"?token="+readSecret, "x"); res.status != 403 {
			t.Errorf("%s %s with the readers' token: %d %s", tt.method, tt.path, res.status, res.body)
		}
	}
	res := f.request("GET", "/files/film", "", cookie)
	if res.body != "a film" || res.header.Get("Cache-Control") != "private" {
		t.Errorf("%d %s %v", res.status, res.body, res.header)
	}
	if got := f.request("GET", "/files/film?token="+readSecret, "", "Accept: */*").header.Get("Set-Cookie"); got != "" {
		t.Errorf("a player got the cookie %q", got)
	}
	if res := f.get("/healthz"); res.status != 200 {
		t.Errorf("/healthz: %d", res.status)
	}
	if res := f.request("OPTIONS", "/live/a", ""); res.status != http.StatusNoContent {
		t.Errorf("OPTIONS: %d %s", res.status, res.body)
	}
}

// Without a --read-token nothing is asked for, and nothing is said about caches.
func TestNoReadToken(t *testing.T) {
	f := serve(t, func(c *Config) { c.PublishToken = writeSecret })
	res := f.request("GET", "/?token=x", "", "Accept: text/html")
	if res.status != 200 || res.header.Get("Set-Cookie") != "" || res.header.Get("Cache-Control") == "private" {
		t.Errorf("%d %v", res.status, res.header)
	}
}
