// Package page serves the web page at /, which lists the live streams and plays one of them. The
// page is plain HTML, CSS and JavaScript, is embedded in the binary, and loads nothing from other
// servers.
//
// The page polls api/streams, a JSON document from package ops, once a second.
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

// policy allows the page to load resources only from this server, and to run no inline scripts,
// because the page shows stream names, which publishers choose. Other pages may not frame the page.
const policy = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'"

type asset struct {
	contentType string
	etag        string
	body        []byte
}

// Handler serves the viewers' page at / and its assets under /page/. It answers GET and HEAD, and
// 404 for every other path.
func Handler() http.Handler { return handler("index.html", "admin.html") }

// Admin returns the handler of the operator's page. The page lists clients, and can end streams,
// viewers and the server. Otherwise the handler is like that of Handler.
func Admin() http.Handler { return handler("admin.html", "index.html") }

// handler serves the page index at /. It does not serve the page other.
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
		// The browser must revalidate its copy each time, because a new binary has a new page at
		// the same URLs. Add keeps the value "private" if the caller has set it.
		h.Add("Cache-Control", "no-cache")
		h.Set("ETag", a.etag)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(a.body))
	})
}

// types lists the content types of the assets. It is used because the types of package mime depend
// on the machine.
var types = map[string]string{
	".html": "text/html",
	".css":  "text/css",
	".js":   "text/javascript",
	".svg":  "image/svg+xml",
}

// load returns the assets of the page index by URL path, without the page other.
func load(index, other string) map[string]asset {
	entries, err := files.ReadDir("assets")
	if err != nil {
		panic(err) // the binary was built without the page
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
