package chunk_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/chunk"
)

// If name is not that of a file, the response is 404 for any URL, and never a redirect.
func TestServeFileNotThere(t *testing.T) {
	root, _ := makeTree(t, tree)
	h := chunk.FileServer(root)
	names := map[string]int{
		"": 404, ".": 404, "/": 404, "..": 404, "/plain.txt": 404, "plain.txt/": 404,
		"./plain.txt":      404,
		"dir/../plain.txt": 404, "../plain.txt": 404, "dir//a.txt": 404, "plain.txt/more": 404,
		"plain.txt\x00": 404,
		"\xff":          404, "nothing": 404, "dir": 404, "dir/": 404, "dirlink": 404,
		"indexed":    404,
		"dir/parent": 404,
		"outside":    404, "absolute": 404, "loop": 404, "broken": 404,
		strings.Repeat("x", 300): 404,
		"plain.txt":              200, "dirlink/a.txt": 200, "uplink": 200,
		"indexed/index.html":   200,
		"dir/parent/plain.txt": 200,
	}
	if runtime.GOOS != "windows" {
		names[`back\slash`] = 200
	}
	for name, want := range names {
		for _, u := range []*url.URL{nil, {Path: "/plain.txt"}, {Path: "/dir/"},
			{Path: "/a/index.html"}, {Path: "/../x"}} {
			w := httptest.NewRecorder()
			h.ServeFile(w, &http.Request{Method: "GET", Header: make(http.Header), ProtoMajor: 1,
				URL: u}, name)
			if w.Code != want || w.Header().Get("Location") != "" {
				t.Errorf("%.40q at %v: %d %v, want %d", name, u, w.Code, w.Header(), want)
			}
		}
	}
}

// The options apply to files served by name, too: siblings, tags and reports.
func TestServeFileOptions(t *testing.T) {
	root, _ := makeTree(t, map[string]string{"dir/a.js": "plain", "dir/a.js.gz": "GZIP"})
	var told []string
	h := chunk.FileServer(root, chunk.Precompressed(),
		chunk.OnServed(func(r *http.Request, sent chunk.Report, status int) {
			told = append(told, r.Method+" "+itoa(status)+" "+itoa(int(sent.Bytes)))
		}))
	byURL := serveTo(h, get("/dir/a.js", ""))
	r := get("/somewhere", "")
	r.Header.Set("Accept-Encoding", "gzip")
	w := httptest.NewRecorder()
	h.ServeFile(w, r, "dir/a.js")
	if w.Body.String() != "GZIP" || w.Header().Get("Content-Encoding") != "gzip" ||
		w.Header().Get("Vary") != "Accept-Encoding" ||
		w.Header().Get("Content-Type") != byURL.Header().Get("Content-Type") {
		t.Errorf("%q, %v, want the gzip file with the type of the plain one", w.Body, w.Header())
	}
	r = httptest.NewRequest("HEAD", "/somewhere", nil)
	r.Header.Set("If-None-Match", byURL.Header().Get("Etag"))
	w = httptest.NewRecorder()
	h.ServeFile(w, r, "dir/a.js")
	if w.Code != http.StatusNotModified {
		t.Errorf("%d, %v, want 304", w.Code, w.Header())
	}
	if got := strings.Join(told, ", "); got != "GET 200 5, GET 200 4, HEAD 304 0" {
		t.Error(got)
	}
}
