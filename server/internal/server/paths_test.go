package server

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A path with empty elements or dots is redirected to the path without them, escaped once.
func TestRedirectsEscapeOnce(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"p q", "100%", "a?b", "å", "a+b", "d q/index.html"} {
		path := filepath.Join(dir, "dir", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("text"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f, admin := serveAdmin(t, func(c *Config) { c.Root = dir })
	last := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
	for path, want := range map[string]string{
		"/files//dir/p%20q":       "/files/dir/p%20q",
		"/files/dir/./100%25":     "/files/dir/100%25",
		"/files/x/../dir/a%3Fb":   "/files/dir/a%3Fb",
		"//files/dir/%C3%A5":      "/files/dir/%C3%A5",
		"/files//dir/a%2Bb?x=%20": "/files/dir/a%2Bb?x=%20",
		"/files/dir//d%20q/":      "/files/dir/d%20q/",
		"/api//streams/p%20q":     "/api/streams/p%20q",
	} {
		url := f.URL(path)
		if strings.HasPrefix(path, "/api/") {
			url = admin.URL(path)
		}
		res, err := last.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if got := res.Header.Get("Location"); got != want ||
			res.StatusCode != http.StatusTemporaryRedirect {
			t.Errorf("%s: %d to %s, want %s", path, res.StatusCode, got, want)
		}
		if res := f.Get(path); !strings.HasPrefix(path, "/api/") &&
			(res.Status != 200 || res.Body != "text") {
			t.Errorf("%s: %d %s, want the file", path, res.Status, res.Body)
		}
	}
	for _, path := range []string{"/files/dir/d%20q", "/files/dir/p%20q/"} {
		if res := f.Get(path); res.Status != 200 || res.Body != "text" {
			t.Errorf("%s: %d %s, want the file", path, res.Status, res.Body)
		}
	}
	for _, path := range []string{"/live/a//b", "/live//a", "/live/./a", "/live/a/../b",
		"/live/a%2F%2Fb", "/live//a/index.m3u8"} {
		for _, method := range []string{"POST", "GET", "HEAD"} {
			if method == "POST" && path == "/live//a/index.m3u8" {
				continue
			}
			if res := f.Request(method, path, ""); res.Status != 400 {
				t.Errorf("%s %s: %d %s, want 400", method, path, res.Status, res.Body)
			}
		}
	}
}
