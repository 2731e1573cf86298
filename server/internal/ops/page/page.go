// Package page serves the web page at /, which lists the live streams and plays one of them. The
// page consists of HTML, CSS and JavaScript that are embedded in the binary. It loads nothing from
// other servers.
//
// Once a second, the page requests api/streams, a JSON document from package ops.
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

// policy is the Content-Security-Policy of the page. The page shows text from publishers, so it
// must not run inline scripts, load from other servers, or be shown in a frame.
const policy = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'"

type asset struct {
	contentType string
	etag        string
	body        []byte
}

// Handler returns the handler of the viewers' page at / and its assets under /page/. For every
// other path it returns status 404.
func Handler() http.Handler { return handler("index.html", "admin.html") }

// Admin returns the handler of the operator's page at / and its assets under /page/. The page lists
// clients, ends streams, disconnects viewers and stops the server. For every other path the handler
// returns status 404.
func Admin() http.Handler { return handler("admin.html", "index.html") }

// handler serves indexFile at /, and the assets under /page/ except otherFile and its script.
func handler(indexFile, otherFile string) http.Handler {
	assets := load(indexFile, otherFile)
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
		// The browser must revalidate the page each time, because a new binary has another page at
		// the same URL. Add, unlike Set, keeps the value "private" if the caller has set it.
		h.Add("Cache-Control", "no-cache")
		h.Set("ETag", a.etag)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(a.body))
	})
}

// types has the content types of the assets by file extension. mime.TypeByExtension is not used,
// because its results depend on the machine.
var types = map[string]string{
	".html": "text/html",
	".css":  "text/css",
	".js":   "text/javascript",
	".svg":  "image/svg+xml",
}

// load returns the assets that handler serves, by URL path.
func load(indexFile, otherFile string) map[string]asset {
	entries, err := files.ReadDir("assets")
	if err != nil {
		panic(err) // the binary has no assets
	}
	assets := make(map[string]asset)
	for _, entry := range entries {
		body, err := files.ReadFile("assets/" + entry.Name())
		if err != nil {
			panic(err)
		}
		url := "/page/" + entry.Name()
		switch entry.Name() {
		case indexFile:
			url = "/"
		case otherFile, strings.TrimSuffix(otherFile, ".html") + ".js":
			continue
		}
		sum := sha256.Sum256(body)
		assets[url] = asset{
			contentType: mime.FormatMediaType(types[path.Ext(entry.Name())],
				map[string]string{"charset": "utf-8"}),
			etag: `"` + hex.EncodeToString(sum[:12]) + `"`,
			body: body,
		}
	}
	return assets
}
