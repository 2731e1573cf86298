package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/millrace-io/millrace/internal/server/page"
)

// routes returns everything that the main listener serves.
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/live/{name}", s.live)
	mux.HandleFunc(filesPath, onlyGet(s.files))
	mux.HandleFunc("/api/streams", onlyGet(s.apiStreams))
	mux.HandleFunc("/healthz", onlyGet(s.health))
	mux.Handle("/metrics", onlyGet(s.metrics.handler().ServeHTTP))
	pages := page.Handler()
	mux.Handle("/{$}", pages)
	mux.Handle("/page/", pages)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		refuseBody(w, r, http.StatusNotFound, "nothing here: see / for the page, /live/NAME for a stream, /files/NAME for a file, /blobs/KEY for a blob")
	})
	return s.heads.handler(s.guard(s.besideBlobs(mux)))
}

// live sorts the requests for a stream by what they want.
func (s *Server) live(w http.ResponseWriter, r *http.Request) {
	const allow = "GET, HEAD, POST, PUT, OPTIONS"
	// A stream has no end in sight; whoever sends or watches it bounds its silence.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		s.watch(w, r)
	case http.MethodPost, http.MethodPut:
		s.publish(w, r)
	case http.MethodOptions:
		// A player on another site asks first when it sends a header of its own. Only watching is offered to it.
		h := w.Header()
		h.Set("Allow", allow)
		h.Set("Access-Control-Allow-Origin", "*")
		h.Set("Access-Control-Allow-Methods", "GET, HEAD")
		h.Set("Access-Control-Allow-Headers", "Authorization, Range")
		h.Set("Access-Control-Max-Age", "86400")
		w.WriteHeader(http.StatusNoContent)
	default:
		w.Header().Set("Allow", allow)
		refuseBody(w, r, http.StatusMethodNotAllowed, fmt.Sprintf("method %.20q is not allowed here: %s", r.Method, allow))
	}
}

// onlyGet lets GET and HEAD through.
func onlyGet(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			refuseBody(w, r, http.StatusMethodNotAllowed, fmt.Sprintf("method %.20q is not allowed here: GET, HEAD", r.Method))
			return
		}
		h(w, r)
	}
}

func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	if s.draining.Err() != nil {
		refuse(w, http.StatusServiceUnavailable, errDraining.Error())
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte("ok\n"))
}

// refuseBody refuses a request whose body may still be coming. It closes the connection: net/http would otherwise read on for
// a while before it answers, and a live stream's body has no end. Behind the answer net/http still waits for some of the body,
// which may never come; refusedFor ends that.
func refuseBody(w http.ResponseWriter, r *http.Request, status int, reason string) {
	if r.ProtoMajor == 1 {
		w.Header().Set("Connection", "close")
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(refusedFor))
	}
	refuse(w, status, reason)
}

// refuse answers with a status and one line of text.
func refuse(w http.ResponseWriter, status int, reason string) {
	w.Header().Set("Cache-Control", "no-store")
	http.Error(w, strings.ToValidUTF8(reason, "?"), status)
}

// answer answers with JSON.
func answer(w http.ResponseWriter, status int, v any) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // an error means that the client has gone away
}
