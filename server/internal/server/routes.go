package server

import (
	"net/http"
	"path"
	"strings"

	"github.com/millrace-io/millrace/server/internal/refuse"
	"github.com/millrace-io/millrace/server/internal/relay"
	"github.com/millrace-io/millrace/server/internal/server/page"
	"github.com/millrace-io/millrace/server/internal/web"
)

// routes returns everything that the main listener serves.
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc(filesPath, s.refusals.onlyGet(s.files.serve))
	mux.HandleFunc("/api/streams", s.refusals.onlyGet(s.apiStreams))
	mux.HandleFunc("/healthz", s.refusals.onlyGet(s.health))
	mux.Handle("/metrics", s.refusals.onlyGet(s.metrics()))
	pages := page.Handler()
	mux.Handle("/{$}", pages)
	mux.Handle("/page/", pages)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.refusals.refuse(wanted(r), w, r, refuse.New(http.StatusNotFound,
			"nothing here: see / for the page, /live/NAME for a stream, /files/NAME for a file, /blobs/KEY for a blob").
			For(refuse.Path))
	})
	peers := relay.NewPeers(s.relay)
	players := &hlsService{
		hls: relay.NewHLS(s.relay), peers: peers, node: s.node, access: s.access, budget: s.budget, refusals: s.refusals,
	}
	live := &liveService{
		streams: web.New(s.relay), access: s.access, budget: s.budget, refusals: s.refusals, hls: players,
	}
	all := s.besideNames(live, cleanPaths(mux))
	return s.node.admit(s.refusals, all, s.clients.limitAddresses(s.access.protect(s.access.auth.Load, all)))
}

// besideNames answers requests for streams and blobs, and passes all others to next. A ServeMux would
// redirect a name such as a//b to another one.
func (s *Server) besideNames(live *liveService, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if key, ok := strings.CutPrefix(r.URL.Path, blobsPath); ok {
			s.blobs.serve(w, r, key)
		} else if strings.HasPrefix(r.URL.EscapedPath(), "/live/") { // not /live%2F
			live.serve(w, r, r.URL.Path[len("/live/"):])
		} else {
			next.ServeHTTP(w, r)
		}
	})
}

// cleanPaths redirects to the path without empty parts and dots, and passes requests for such a path
// to next. A ServeMux does the same, but escapes once more what is escaped.
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

func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	if s.draining.Err() != nil {
		writeReason(w, http.StatusServiceUnavailable, refuse.ErrShutdown.Error())
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte("ok\n"))
}
