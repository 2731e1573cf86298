package server

import (
	"net/http"
	"path"
	"strings"

	"github.com/millrace-io/millrace/server/internal/access"
	"github.com/millrace-io/millrace/server/internal/ops"
	"github.com/millrace-io/millrace/server/internal/ops/page"
	"github.com/millrace-io/millrace/server/internal/refuse"
	"github.com/millrace-io/millrace/server/internal/store"
	"github.com/millrace-io/millrace/server/internal/streamname"
	"github.com/millrace-io/millrace/server/internal/web"
)

// routes returns the handler of the main listener.
func (s *Server) routes(observer *ops.Observer) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc(store.FilesPath, s.refusals.Only("GET, HEAD", s.files.ServeHTTP))
	mux.HandleFunc("/api/streams", s.refusals.Only("GET, HEAD", observer.ServeStreams))
	mux.HandleFunc("/healthz", s.refusals.Only("GET, HEAD", s.health))
	mux.Handle("/metrics", s.refusals.Only("GET, HEAD", observer.Metrics()))
	pages := page.Handler()
	mux.Handle("/{$}", pages)
	mux.Handle("/page/", pages)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.refusals.Refuse(access.KindOf(r), w, r, refuse.New(http.StatusNotFound,
			"nothing here: see / for the page, /live/NAME for a stream, /files/NAME for a file, /blobs/KEY for a blob").
			For(refuse.Path))
	})
	live := web.NewService(web.Config{
		Hub: s.hub, Gate: s.gate, Origins: s.origins, Budget: s.budget, Refusals: s.refusals,
		Remote: s.node.remote(),
	})
	all := s.besideNames(live, cleanPaths(mux))
	return s.node.admitNodes(s.refusals, all, openHealth(all,
		s.clients.withAddressLimits(s.gate.Protect(all))))
}

// besideNames returns a handler that serves streams and blobs, and passes all other requests to
// next. A ServeMux cannot serve streams and blobs, because it redirects a name such as a//b.
func (s *Server) besideNames(live *web.Service, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if key, ok := strings.CutPrefix(r.URL.Path, store.BlobsPath); ok {
			s.blobs.Serve(w, r, key)
		} else if strings.HasPrefix(r.URL.EscapedPath(), streamname.Path) { // not for /live%2F
			live.Serve(w, r, r.URL.Path[len(streamname.Path):])
		} else {
			next.ServeHTTP(w, r)
		}
	})
}

// cleanPaths returns a handler that redirects a path with empty or dot segments to the clean path.
// It passes other requests to next. A ServeMux redirects, too, but escapes the path twice.
func cleanPaths(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		escaped := r.URL.EscapedPath()
		clean := path.Clean("/" + escaped)
		if strings.HasSuffix(escaped, "/") && clean != "/" {
			clean += "/"
		}
		if clean == escaped || r.Method == http.MethodConnect {
			next.ServeHTTP(w, r)
			return
		}
		if r.URL.RawQuery != "" {
			clean += "?" + r.URL.RawQuery
		}
		http.Redirect(w, r, clean, http.StatusTemporaryRedirect)
	})
}

// openHealth returns a handler that does not require a token for /healthz, because monitors cannot
// send a token. All other requests are protected.
func openHealth(unprotected, protected http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/healthz" {
			unprotected.ServeHTTP(w, r)
			return
		}
		protected.ServeHTTP(w, r)
	})
}

func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	if s.draining.Err() != nil {
		refuse.Write(w, http.StatusServiceUnavailable, refuse.ErrShutdown.Error())
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte("ok\n"))
}
