package chunk_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/millrace-io/millrace/chunk"
)

// escaped returns the escaped form of a path in a URL.
func escaped(path string) string { return (&url.URL{Path: "/" + path}).EscapedPath() }

func itoa(n int) string { return strconv.Itoa(n) }

// FuzzFileServer compares with http.FileServer for any request.
func FuzzFileServer(f *testing.F) {
	for _, q := range questions() {
		if q.method != "GET" || len(q.header) != 2 || q.etag == "" {
			continue
		}
		f.Add(uint8(0), q.path, q.etag, q.header["Range"], q.header["If-Match"],
			q.header["If-None-Match"],
			q.header["If-Modified-Since"], q.header["If-Unmodified-Since"], q.header["If-Range"])
	}
	for name := range tree {
		f.Add(uint8(1), "/"+name, "", "", "", "", "", "", "")
	}
	for _, r := range rangeSeeds {
		f.Add(uint8(2), "/large.bin", `"x"`, r, "", "", "", "", `"x"`)
	}
	root, _ := makeTree(f, tree)
	h, want := chunk.FileServer(root), http.FileServer(http.FS(root.FS()))
	f.Fuzz(func(t *testing.T, method uint8, path, etag, ranges, match, noneMatch, since, unmodified,
		ifRange string) {
		r := &http.Request{
			Method: []string{"GET", "HEAD", "POST"}[method%3],
			URL:    &url.URL{Path: path}, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			Header: make(http.Header),
		}
		for k, v := range map[string]string{
			"Range": ranges, "If-Match": match, "If-None-Match": noneMatch,
			"If-Modified-Since":   since,
			"If-Unmodified-Since": unmodified, "If-Range": ifRange,
		} {
			if v != "" {
				r.Header.Set(k, v)
			}
		}
		got := answer(t, tagged(h, etag), r)
		if fuzzDifferent(path) {
			if got.status >= 500 {
				t.Errorf("%q: status %d, want no 5xx", path, got.status)
			}
			return
		}
		compare(t, strconv.Quote(path), r.Method, got, answer(t, tagged(want, etag), r))
	})
}

// fuzzDifferent reports whether requests for path are answered differently from http.FileServer.
// TestFileServerHeldBackDifferences has the reasons.
func fuzzDifferent(path string) bool {
	if !utf8.ValidString(path) || len(path) > 200 || strings.ContainsRune(path, 0) {
		return true // names that fs.FS does not open
	}
	if different(question{path: "/" + strings.Trim(path, "/")}) || different(question{path: path}) {
		return true
	}
	// Other names for the same directories, and redirects to names that must be escaped.
	for _, odd := range []string{"loop", "outside", "absolute", "parent", ".", "?", "#", ":", " ",
		"%", "\\", "\"", "&", "ü", "<"} {
		if strings.Contains(path, odd) && !strings.Contains(path, ".txt") &&
			!strings.Contains(path, ".bin") {
			return true
		}
	}
	return strings.Trim(path, "/") == ""
}

// answer returns the response of a handler to a copy of r.
func answer(t testing.TB, h http.Handler, r *http.Request) reply {
	t.Helper()
	w := serveTo(h, r.Clone(t.Context()))
	if r.Method == http.MethodHead {
		w.Body.Reset() // net/http does not send the body
	}
	return newReply(t, w.Result())
}

func get(path, ranges string) *http.Request {
	r := httptest.NewRequest("GET", path, nil)
	if ranges != "" {
		r.Header.Set("Range", ranges)
	}
	return r
}

func serveTo(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}
