package chunk_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/chunk"
)

// TestFileServerWithoutASlash checks paths that a mux has left without a leading slash.
func TestFileServerWithoutASlash(t *testing.T) {
	root, _ := makeTree(t, tree)
	h := chunk.FileServer(root)
	for path, want := range map[string]int{"plain.txt": 200, "dir/a.txt": 200, "nothing": 404,
		"": 200} {
		r := httptest.NewRequest("GET", "/", nil)
		r.URL.Path = path
		if w := serveTo(h, r); w.Code != want {
			t.Errorf("%q: %d, want %d", path, w.Code, want)
		}
	}
}

// TestFileServerServed checks that OnServed is called once for every request, with the number of
// sent bytes, and that Sent is their sum.
func TestFileServerServed(t *testing.T) {
	root, _ := makeTree(t, tree)
	var log []string
	h := chunk.FileServer(root, chunk.OnServed(func(r *http.Request, sent chunk.Report,
		status int) {
		log = append(log, fmt.Sprintf("%s %s %d %d", r.Method, r.URL.Path, status, sent.Bytes))
	}), chunk.Listing(false))
	ask := func(method, path, ranges string) {
		r := httptest.NewRequest(method, path, nil)
		if ranges != "" {
			r.Header.Set("Range", ranges)
		}
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
	ask("GET", "/plain.txt", "")
	ask("HEAD", "/plain.txt", "")
	ask("GET", "/large.bin", "bytes=0-4")
	ask("GET", "/large.bin", "bytes=x")
	ask("GET", "/nothing", "")
	ask("GET", "/dir", "")
	ask("GET", "/dir/", "")
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic of a Write got lost")
			}
		}()
		w := &probe{ResponseRecorder: httptest.NewRecorder(),
			at: func() { panic(http.ErrAbortHandler) }}
		h.ServeHTTP(w, httptest.NewRequest("GET", "/plain.txt", nil))
	}()
	want := "GET /plain.txt 200 29|HEAD /plain.txt 200 0|GET /large.bin 206 5|GET /large.bin 416 0|GET /nothing 404 0|" +
		"GET /dir 301 0|GET /dir/ 403 0|GET /plain.txt 200 0"
	if got := strings.Join(log, "|"); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if s := h.Sent(); s.Bytes != s.Copied || s.Bytes < 29+5 {
		t.Errorf("%+v, want all bytes copied, and the file's among them", s)
	}
}
