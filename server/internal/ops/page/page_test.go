package page

import (
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/internal/testkit/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func answer(method, path string, header http.Header) *http.Response {
	r := httptest.NewRequest(method, path, nil)
	for key, values := range header {
		r.Header[key] = values
	}
	w := httptest.NewRecorder()
	Handler().ServeHTTP(w, r)
	return w.Result()
}

// text returns every file of the page by its path.
func text(t *testing.T) map[string]string {
	t.Helper()
	parts := make(map[string]string)
	for path := range load("index.html", "admin.html") {
		body, err := io.ReadAll(answer("GET", path, nil).Body)
		if err != nil {
			t.Fatal(err)
		}
		parts[path] = string(body)
	}
	return parts
}

func TestPartsHaveTheirTypes(t *testing.T) {
	for path, want := range map[string]string{
		"/":               "text/html; charset=utf-8",
		"/page/app.js":    "text/javascript; charset=utf-8",
		"/page/style.css": "text/css; charset=utf-8",
		"/page/icon.svg":  "image/svg+xml; charset=utf-8",
	} {
		r := answer("GET", path, nil)
		if r.StatusCode != http.StatusOK {
			t.Errorf("%s: status %d, want 200", path, r.StatusCode)
		}
		if got := r.Header.Get("Content-Type"); got != want {
			t.Errorf("%s: Content-Type %q, want %q", path, got, want)
		}
	}
	for path, a := range load("index.html", "admin.html") {
		if strings.HasPrefix(a.contentType, ";") || a.contentType == "" {
			t.Errorf("%s has no Content-Type: add its ending to types", path)
		}
	}
}

func TestPagePolicyForbidsOtherSites(t *testing.T) {
	for path := range load("index.html", "admin.html") {
		h := answer("GET", path, nil).Header
		if csp := h.Get("Content-Security-Policy"); !strings.HasPrefix(csp,
			"default-src 'self';") || strings.Contains(csp, "unsafe") {
			t.Errorf("%s: Content-Security-Policy %q allows other sites or unsafe", path, csp)
		}
		if got := h.Get("X-Content-Type-Options"); got != "nosniff" {
			t.Errorf("%s: X-Content-Type-Options %q, want nosniff", path, got)
		}
	}
}

// An SVG file must have its namespace, which looks like an address and is never fetched.
const namespace = `xmlns="http://www.w3.org/2000/svg"`

func TestPageFetchesNothingFromOtherSites(t *testing.T) {
	elsewhere := regexp.MustCompile(`(?i)(https?|wss?|ftp|data|blob):[^\s]|["'(=]\s*//|@import`)
	for path, body := range text(t) {
		for _, hit := range elsewhere.FindAllString(strings.ReplaceAll(body, namespace, ""), -1) {
			t.Errorf("%s holds %q, an address of another site", path, hit)
		}
	}
}

// The policy blocks inline scripts and styles, so the page must have none. A name chosen by a
// publisher must be inserted as text.
func TestNoInlineScriptsAndNoTextAsHTML(t *testing.T) {
	inline := regexp.MustCompile(`(?i)<style|<script[^>]*>[^<]|\sstyle=|\son[a-z]+=|javascript:`)
	asHTML := regexp.MustCompile(
		`innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function`)
	for path, body := range text(t) {
		if hit := inline.FindString(body); hit != "" && !strings.HasSuffix(path, ".js") {
			t.Errorf("%s holds %q, an inline script", path, hit)
		}
		if hit := asHTML.FindString(body); hit != "" {
			t.Errorf("%s holds %q, text as HTML", path, hit)
		}
	}
}

// Every file that another one refers to is served under the path that a browser resolves.
func TestEveryReferenceIsServed(t *testing.T) {
	parts := text(t)
	reference := regexp.MustCompile(`(?:src|href)="(page/[^"]+)"|from '\./([^']+)'`)
	for path, body := range parts {
		for _, m := range reference.FindAllStringSubmatch(body, -1) {
			want := "/" + m[1]
			if m[2] != "" {
				want = "/page/" + m[2]
			}
			if _, ok := parts[want]; !ok {
				t.Errorf("%s refers to %s, which is not served", path, want)
			}
		}
	}
}

func TestUnchangedPartsAreNotModified(t *testing.T) {
	first := answer("GET", "/page/app.js", nil)
	etag := first.Header.Get("ETag")
	if etag == "" || first.Header.Get("Cache-Control") != "no-cache" {
		t.Fatalf("ETag %q, Cache-Control %q", etag, first.Header.Get("Cache-Control"))
	}
	again := answer("GET", "/page/app.js", http.Header{"If-None-Match": {etag}})
	if again.StatusCode != http.StatusNotModified {
		t.Errorf("status %d, want 304", again.StatusCode)
	}
}

func TestOtherPathsAndMethods(t *testing.T) {
	for _, test := range []struct {
		method, path string
		want         int
	}{
		{"HEAD", "/", http.StatusOK},
		{"POST", "/", http.StatusMethodNotAllowed},
		{"GET", "/index.html", http.StatusNotFound},
		{"GET", "/page/", http.StatusNotFound},
		{"GET", "/page/../page.go", http.StatusNotFound},
		{"GET", "/live", http.StatusNotFound},
	} {
		if r := answer(test.method, test.path, nil); r.StatusCode != test.want {
			t.Errorf("%s %s: status %d, want %d", test.method, test.path, r.StatusCode, test.want)
		}
	}
}
