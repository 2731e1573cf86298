package server

import (
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"net/url"
	"strconv"

	"github.com/millrace-io/millrace/server/internal/access"
	"github.com/millrace-io/millrace/server/internal/ops"
	"github.com/millrace-io/millrace/server/internal/ops/page"
	"github.com/millrace-io/millrace/server/internal/refuse"
)

// An adminService serves the operator's requests that concern the whole server.
type adminService struct {
	refusals *access.Refusals
	log      *slog.Logger
	tls      bool   // whether the main listener uses TLS
	stop     func() // ends the server, as SIGTERM does
}

// adminRoutes returns the handler of the admin listener. It does not serve /debug/pprof/cmdline,
// because the command line may contain tokens and passwords.
func (s *Server) adminRoutes(observer *ops.Observer, main net.Addr) http.Handler {
	a := &adminService{
		refusals: s.refusals, log: s.log, tls: s.cert != nil, stop: s.stopServing,
	}
	o := ops.NewOperator(observer)
	mux := http.NewServeMux()
	for path, h := range map[string]http.HandlerFunc{
		"/debug/pprof/":        pprof.Index,
		"/debug/pprof/profile": pprof.Profile,
		"/debug/pprof/symbol":  pprof.Symbol,
		"/debug/pprof/trace":   pprof.Trace,
		"/metrics":             observer.Metrics(),
		"/api/streams":         observer.ServeOperator,
		"/healthz":             s.health,
		"/main":                a.mainPage(main),
		"/":                    page.Admin().ServeHTTP,
	} {
		mux.HandleFunc(path, s.refusals.Only("GET, HEAD", h))
	}
	mux.HandleFunc("DELETE /api/streams/{name...}", s.operator.ProtectDecision(o.EndStream))
	mux.HandleFunc("/api/streams/{name...}", s.refusals.Only("GET, HEAD, DELETE", o.Stream))
	mux.HandleFunc("POST /api/pushes", s.operator.ProtectDecision(o.AddPush))
	mux.HandleFunc("/api/pushes", s.refusals.Only("GET, HEAD, POST", observer.ServePushes))
	mux.HandleFunc("/api/pushes/{id}", s.refusals.Only("DELETE",
		s.operator.ProtectDecision(o.EndPush)))
	mux.HandleFunc("/api/viewers/{id}", s.refusals.Only("DELETE",
		s.operator.ProtectDecision(o.EndViewer)))
	mux.HandleFunc("/api/drain", s.refusals.Only("POST", s.operator.ProtectDecision(a.beginDrain)))
	return openHealth(mux, s.operator.Protect(cleanPaths(mux)))
}

// mainPage returns a handler that redirects a browser to the page of the main listener at addr. If
// addr is an unspecified address such as 0.0.0.0, the redirect uses the host of the request
// instead, because the browser has reached this machine with that host.
func (s *adminService) mainPage(addr net.Addr) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		tcp, ok := addr.(*net.TCPAddr)
		if !ok {
			s.refusals.Refuse(access.Reader, w, r,
				refuse.New(http.StatusNotFound, "the main listener is no TCP port"))
			return
		}
		link := url.URL{Scheme: "http", Host: tcp.String(), Path: "/"}
		if host := (&url.URL{Host: r.Host}).Hostname(); tcp.IP.IsUnspecified() && host != "" {
			link.Host = net.JoinHostPort(host, strconv.Itoa(tcp.Port))
		}
		if s.tls {
			link.Scheme = "https"
		}
		w.Header().Set("Cache-Control", "no-store")
		http.Redirect(w, r, link.String(), http.StatusSeeOther)
	}
}

func (s *adminService) beginDrain(w http.ResponseWriter, r *http.Request) {
	s.log.Info("the operator ends the server", "client", r.RemoteAddr)
	w.WriteHeader(http.StatusAccepted)
	s.stop()
}
