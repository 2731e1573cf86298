package chunk_test

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/chunk"
)

// TestEncodingChoice checks which sibling is chosen for an Accept-Encoding, and that it has the
// original's type.
func TestEncodingChoice(t *testing.T) {
	root, dir := makeTree(t, map[string]string{
		"all.js": "plain", "all.js.br": "BR", "all.js.zst": "ZSTD", "all.js.gz": "GZIP",
		"gz.html": "plain", "gz.html.gz": "GZIP", "none.css": "plain", "old.js": "plain",
		"old.js.br": "BR",
		"dir.js":    "plain", "dir.js.br/x": "", "index.html": "plain", "index.html.br": "BR",
		"only.js.gz": "GZIP",
	})
	must(t, os.Chtimes(filepath.Join(dir, "old.js.br"), modified, modified.Add(-time.Second)))
	h := chunk.FileServer(root, chunk.Precompressed())
	const no = "\x00" // no header
	for _, c := range []struct {
		path, accept, body string
		status             int
	}{
		{"/all.js", no, "plain", 200},
		{"/all.js", "", "plain", 200},
		{"/all.js", "br", "BR", 200},
		{"/all.js", "BR", "BR", 200},
		{"/all.js", "gzip, deflate, br, zstd", "BR", 200},
		{"/all.js", "gzip, zstd", "ZSTD", 200},
		{"/all.js", "gzip", "GZIP", 200},
		{"/all.js", "x-gzip", "GZIP", 200},
		{"/all.js", "br;q=0.5, gzip;q=0.8", "GZIP", 200},
		{"/all.js", "br;q=0, gzip", "GZIP", 200},
		{"/all.js", "*", "BR", 200},
		{"/all.js", "*;q=0.5, gzip", "GZIP", 200},
		{"/all.js", "br;q=0, *", "ZSTD", 200},
		{"/all.js", "gzip;q=0.5, identity", "plain", 200},
		{"/all.js", "gzip;q=0.5, identity;q=0.5", "GZIP", 200},
		{"/all.js", "*;q=0", "", 406},
		{"/all.js", "identity;q=0", "", 406},
		{"/all.js", "identity;q=0, br", "BR", 200},
		{"/all.js", "identity, *;q=0", "plain", 200},
		{"/all.js", "deflate", "plain", 200},
		{"/all.js", "br;q=2", "plain", 200},
		{"/all.js", "br;q=x, gzip ; q=1.000", "GZIP", 200},
		{"/all.js", "br;q=NaN", "plain", 200},
		{"/all.js", "br;level=4", "plain", 200},
		{"/all.js", ",,;q=1,;,br", "BR", 200},
		{"/all.js", strings.Repeat("a,", 100_000) + "br", "BR", 200},
		{"/gz.html", "br, gzip", "GZIP", 200},
		{"/gz.html", "br", "plain", 200},
		{"/none.css", "br", "plain", 200},
		{"/none.css", "identity;q=0", "", 406},
		{"/old.js", "br", "plain", 200},
		{"/dir.js", "br", "plain", 200},
		{"/", "br", "BR", 200},
		{"/only.js", "gzip", "", 404},
		{"/only.js.gz", "br", "GZIP", 200},
	} {
		r := httptest.NewRequest("GET", c.path, nil)
		if c.accept != no {
			r.Header.Set("Accept-Encoding", c.accept)
		}
		w := serveTo(h, r)
		what := c.path + " " + c.accept[:min(len(c.accept), 40)]
		if w.Code != c.status || c.status == 200 && w.Body.String() != c.body {
			t.Errorf("%s: %d %q, want %d %q", what, w.Code, w.Body, c.status, c.body)
		}
		if c.status == 406 && w.Header().Get("Vary") == "" {
			t.Errorf("%s: a 406 that has no Vary", what)
		}
		if c.status != 200 {
			continue
		}
		encoding := map[string]string{"BR": "br", "ZSTD": "zstd", "GZIP": "gzip"}[c.body]
		if strings.HasSuffix(c.path, ".gz") {
			encoding = ""
		}
		if got := w.Header().Get("Content-Encoding"); got != encoding {
			t.Errorf("%s: Content-Encoding is %q, want %q", what, got, encoding)
		}
		if got := w.Header().Get("Content-Length"); got != itoa(len(c.body)) {
			t.Errorf("%s: Content-Length is %s", what, got)
		}
		if strings.HasSuffix(c.path, ".js") &&
			!strings.Contains(w.Header().Get("Content-Type"), "javascript") {
			t.Errorf("%s: Content-Type is %s", what, w.Header().Get("Content-Type"))
		}
		if w.Header().Get("Vary") != "Accept-Encoding" {
			t.Errorf("%s: Vary is %q", what, w.Header().Get("Vary"))
		}
	}
}

// TestEncodingOff checks that without the option, siblings are ordinary files.
func TestEncodingOff(t *testing.T) {
	root, _ := makeTree(t, map[string]string{"a.js": "plain", "a.js.br": "BR"})
	r := httptest.NewRequest("GET", "/a.js", nil)
	r.Header.Set("Accept-Encoding", "br, identity;q=0")
	w := httptest.NewRecorder()
	chunk.FileServer(root).ServeHTTP(w, r)
	if w.Body.String() != "plain" || w.Header().Get("Vary") != "" {
		t.Errorf("%q, %v, want the plain file without Vary", w.Body, w.Header())
	}
}
