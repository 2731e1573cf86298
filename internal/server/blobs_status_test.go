package server

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestBlobStatus(t *testing.T) {
	const absent, anything = `If-None-Match: *`, `If-Match: *`
	long := strings.Repeat("k", 1024)
	onEachStore(t, func(t *testing.T, start func(func(*Config)) *fixture) {
		f := start(func(c *Config) { c.MaxBlobBytes = 2 << 20 })
		tag := ""
		for i, tt := range []struct {
			method, path, body string
			header             string // TAG is that of the last answer which had one
			want               int
			says               string
		}{
			{"GET", "a", "", "", 404, "no such blob"},
			{"HEAD", "a", "", "", 404, ""},
			{"DELETE", "a", "", "", 404, "no such blob"},
			{"PUT", "a", "value", anything, 412, "If-Match"},
			{"PUT", "a", "value", absent, 201, ""},
			{"PUT", "a", "other", absent, 412, "If-None-Match"},
			{"PUT", "a", "value!", "", 204, ""},
			{"GET", "a", "", "", 200, "value!"},
			{"GET", "a", "", "If-None-Match: TAG", 304, ""},
			{"HEAD", "a", "", "If-None-Match: TAG", 304, ""},
			{"GET", "a", "", `If-None-Match: "other"`, 200, "value!"},
			{"GET", "a", "", "If-Match: TAG", 200, "value!"},
			{"GET", "a", "", `If-Match: "other"`, 412, ""},
			{"GET", "a", "", "If-Modified-Since: Sat, 01 Jan 2200 00:00:00 GMT", 200, "value!"},
			{"GET", "a", "", "If-Unmodified-Since: Sat, 01 Jan 2000 00:00:00 GMT", 200, "value!"},
			{"GET", "a", "", "Range: bytes=1-2", 206, "al"},
			{"GET", "a", "", "Range: bytes=-1", 206, "!"},
			{"GET", "a", "", "Range: bytes=3-", 206, "ue!"},
			{"GET", "a", "", "Range: bytes=0-0,5-5", 206, "Content-Range: bytes 5-5/6"},
			{"GET", "a", "", "Range: bytes=6-", 416, ""},
			{"GET", "a", "", "Range: bytes=-0", 416, "overlap"},
			{"GET", "a", "", "Range: bytes=+1-2", 416, "invalid range"},
			{"PUT", "empty", "", "", 201, ""},
			{"GET", "empty", "", "Range: bytes=-1", 200, ""},
			{"GET", "a", "", "", 200, "value!"},
			{"HEAD", "a", "", "Range: bytes=1-2", 206, ""},
			{"PUT", "a", "v2", "If-Match: TAG", 204, ""},
			{"GET", "a", "", "", 200, "v2"},
			{"PUT", "a", "v3", `If-Match: "other"`, 412, "If-Match"},
			{"PUT", "a", "v3", `If-None-Match: "other"`, 204, ""},
			{"DELETE", "a", "", `If-Match: "other"`, 412, ""},
			{"GET", "a", "", "", 200, "v3"},
			{"DELETE", "a", "", "If-Match: TAG", 204, ""},
			{"GET", "a", "", "", 404, ""},
			{"DELETE", "a", "", anything, 412, ""},
			{"PUT", "a/b/c", "nested", "", 201, ""},
			{"GET", "a%2Fb%2fc", "", "", 200, "nested"}, // the same key
			{"GET", "a/b", "", "", 404, ""},
			{"PUT", "a/b", "beside", "", 201, ""},
			{"GET", "a/b/c", "", "", 200, "nested"},
			{"PUT", "index.html", "<script>", "", 201, ""},
			{"GET", "index.html", "", "", 200, "<script>"},
			{"PUT", long, "long", "", 201, ""},
			{"GET", long, "", "", 200, "long"},
			{"PUT", long + "k", "", "", 400, "1024"},
			{"PUT", "%7D%7B%7Bx%7D", "braces", "", 201, ""},
			{"GET", "%7D%7B%7Bx%7D", "", "", 200, "braces"},
			{"PUT", "UPPER", "1", "", 201, ""},
			{"PUT", "upper", "2", "", 201, ""},
			{"GET", "UPPER", "", "", 200, "1"},
			{"PUT", "%e2%82%ac%25%3f%20", "sign", "", 201, ""},
			{"GET", "%e2%82%ac%25%3f%20", "", "", 200, "sign"},
			{"PUT", "", "", "", 400, "1 to 1024"},
			{"PUT", "..%2f..%2fetc%2fpasswd", "", "", 400, "slashes"},
			{"PUT", "a%2f..%2f..%2fb", "", "", 400, "slashes"},
			{"GET", "%2fetc%2fpasswd", "", "", 400, "slashes"},
			{"GET", "%2e%2e/x", "", "", 400, "slashes"},
			{"GET", "../blobs/a/./b/c", "", "", 400, "slashes"}, // no key is rewritten
			{"PUT", "a//b", "x", "", 400, "slashes"},
			{"PUT", "a/./b", "x", "", 400, "slashes"},
			{"PUT", "a/../b", "x", "", 400, "slashes"},
			{"DELETE", "..", "", "", 400, "slashes"},
			{"GET", "/", "", "", 400, "slashes"},
			{"PUT", "a%2f", "", "", 400, "slashes"},
			{"PUT", "a%00b", "", "", 400, "control"},
			{"PUT", "a%0d%0ab", "", "", 400, "control"},
			{"PUT", "a%c2%85b", "", "", 400, "control"},
			{"PUT", "a%ff", "", "", 400, "UTF-8"},
			{"POST", "a", "x", "", 405, "GET, HEAD, PUT, DELETE"},
			{"PUT", "a", "x", "Content-Range: bytes 0-0/2", 400, "Content-Range"},
			{"PUT", "a", "x", "Content-Encoding: gzip", 415, "Content-Encoding"},
			{"PUT", "a", "x", "Millrace-TTL: soon", 400, "Millrace-TTL"},
			{"PUT", "a", "x", "Millrace-TTL: 0", 400, "Millrace-TTL"},
			{"PUT", "a", "x", "Origin: http://elsewhere.example", 403, "another site"},
			{"DELETE", "upper", "", "Host: elsewhere.example", 403, "this machine only"},
			{"PUT", "a", string(random(2<<20 + 1)), "", 413, "--max-blob-bytes"},
			{"GET", "a", "", "", 404, ""},
			{"PUT", "a", string(random(2 << 20)), "", 201, ""},
		} {
			res := f.request(tt.method, "/blobs/"+tt.path, tt.body, strings.ReplaceAll(tt.header, "TAG", tag))
			if res.status != tt.want || !strings.Contains(res.body, tt.says) {
				t.Errorf("%d: %s %.80s %s: %d %.200q, want %d with %q", i, tt.method, tt.path, tt.header, res.status, res.body, tt.want, tt.says)
			}
			if newTag := res.header.Get("Etag"); newTag != "" {
				if tt.method == "PUT" && newTag == tag {
					t.Errorf("%d: two values have the tag %s", i, tag)
				}
				tag = newTag
			}
		}
		req, err := http.NewRequest("PUT", f.url("/blobs/endless"), io.LimitReader(zeros{}, 3<<20))
		if err != nil {
			t.Fatal(err)
		}
		if res := f.do(req); res.status != 413 {
			t.Errorf("a body of no known length that is too long: %d %s", res.status, res.body)
		}
		if res := f.get("/blobs/endless"); res.status != 404 {
			t.Errorf("and then: %d", res.status)
		}
		if res := f.get("/api/streams"); !strings.Contains(res.body, `"blobs":true`) {
			t.Errorf("%s", res.body)
		}
	})
}
