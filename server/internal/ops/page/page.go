// Package page is the server's page at /: it lists the live streams and plays one. It is plain
// HTML, CSS and JavaScript embedded in the binary, and loads nothing from other servers.
//
// Once a second the page reads api/streams, a JSON document that package ops makes.
package page

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"mime"
	"net/http"
	"path"
	"strings"
	"time"
)

//go:embed assets
var files embed.FS

// policy lets the page load from this server alone, and run no script inside a text: a publisher
// chooses the stream's name. Other pages may not frame it.
const policy = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'"

type asset struct {
	contentType string
	etag        string
	body        []byte
}

// Handler serves the page at / and its parts under /page/; every other path is not found. It
// answers GET and HEAD.
func Handler() http.Handler { return handler("index.html", "admin.html") }

// Admin serves the operator's page in the same way. It lists clients, and ends streams, viewers and
// the server.
func Admin() http.Handler { return handler("admin.html", "index.html") }

// handler serves one page at /, and nothing of the other one.
func handler(index, other string) http.Handler {
	assets := load(index, other)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a, ok := assets[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "method not allowed: the page answers GET and HEAD",
				http.StatusMethodNotAllowed)
			return
		}
		h := w.Header()
		h.Set("Content-Type", a.contentType)
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		// Kept, but asked for each time: a new binary brings a new page under the same addresses. A
		// "private" of the caller's stays.
		h.Add("Cache-Control", "no-cache")
		h.Set("ETag", a.etag)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(a.body))
	})
}

// types has the types of the parts, because package mime depends on the machine.
var types = map[string]string{
	".html": "text/html",
	".css":  "text/css",
	".js":   "text/javascript",
	".svg":  "image/svg+xml",
}

// load returns the parts of a page by the path they are served at, without the other page.
func load(index, other string) map[string]asset {
	entries, err := files.ReadDir("assets")
	if err != nil {
		panic(err) // the binary was built without its page
	}
	assets := make(map[string]asset)
	for _, entry := range entries {
		body, err := files.ReadFile("assets/" + entry.Name())
		if err != nil {
			panic(err)
		}
		at := "/page/" + entry.Name()
		switch entry.Name() {
		case index:
			at = "/"
		case other, strings.TrimSuffix(other, ".html") + ".js":
			continue
		}
		sum := sha256.Sum256(body)
		assets[at] = asset{
			contentType: mime.FormatMediaType(types[path.Ext(entry.Name())],
				map[string]string{"charset": "utf-8"}),
			etag: `"` + hex.EncodeToString(sum[:12]) + `"`,
			body: body,
		}
	}
	return assets
}
