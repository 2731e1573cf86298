package server

import (
	"encoding/json"
	"io"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/millrace-io/millrace/server/internal/refuse"
	"github.com/millrace-io/millrace/server/internal/server/page"
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
	live := &liveService{relay: s.relay, access: s.access, budget: s.budget, refusals: s.refusals,
		hls: &hlsService{relay: s.relay, node: s.node, access: s.access, budget: s.budget, refusals: s.refusals}}
	all := s.besideNames(live, cleanPaths(mux))
	return s.admitNodes(all, s.clients.limitAddresses(s.access.protect(s.access.auth.Load, all)))
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

const (
	// refusedWait is how long a refused body is still received: long enough for the answer to reach the other side of the
	// world, and for the client there to stop.
	refusedWait = 2 * time.Second

	// refusedBytes bounds the same in bytes: what a gigabit a second brings in a quarter of that time.
	refusedBytes = 64 << 20
)

// refuseBody refuses a request whose body may still be coming, and closes the connection. It receives some of the body
// after the answer: a connection that is closed while bytes arrive is reset, and a client that has not read the answer
// yet loses it.
func refuseBody(w http.ResponseWriter, r *http.Request, status int, reason string) {
	if r.ProtoMajor != 1 {
		writeReason(w, status, reason)
		return
	}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(refusedWait))
	w.Header().Set("Connection", "close")
	writeReason(w, status, reason)
	if r.Body != nil && r.Body != http.NoBody && control.Flush() == nil {
		_, _ = io.CopyN(io.Discard, r.Body, refusedBytes)
	}
}

// writeReason answers with a status and one line of text.
func writeReason(w http.ResponseWriter, status int, reason string) {
	text := strings.ToValidUTF8(reason, "?") + "\n"
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(len(text)))
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text) // an error means that the client has gone away
}

// answer answers 200 with JSON.
func answer(w http.ResponseWriter, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // numbers and strings
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(text)+1)) // by which another node knows that it has all
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(append(text, '\n'))
}
