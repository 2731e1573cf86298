package server

import (
	"net/http"
	"net/http/pprof"
)

// adminRoutes returns what the admin listener serves. Profiles are here alone, because they cost time to make and tell what
// the server does for whom, and so are the publishers' addresses, unless nobody else can ask for them anywhere.
func (s *Server) adminRoutes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	mux.Handle("/metrics", onlyGet(s.metrics.handler().ServeHTTP))
	mux.HandleFunc("/api/streams", onlyGet(s.adminStreams))
	mux.HandleFunc("/healthz", onlyGet(s.health))
	return mux
}
