package server

import (
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"net/url"
	"strconv"
	"time"

	"github.com/millrace-io/millrace/server/internal/access"
	"github.com/millrace-io/millrace/server/internal/answer"
	"github.com/millrace-io/millrace/server/internal/refuse"
	"github.com/millrace-io/millrace/server/internal/relay"
	"github.com/millrace-io/millrace/server/internal/server/page"
)

// An adminService answers the operator: about single streams, and decisions.
type adminService struct {
	operator relay.Operator
	budget   *answer.Budget
	refusals *access.Refusals
	log      *slog.Logger
	tls      bool   // of the main listener
	stop     func() // ends the server as SIGTERM does
}

// adminRoutes returns everything that the admin listener serves: what costs time to make, what tells where publishers
// and viewers are, and the operator's decisions. There is no /debug/pprof/cmdline: tokens and passwords are on the
// command line.
func (s *Server) adminRoutes(main net.Addr) http.Handler {
	a := &adminService{
		operator: relay.NewOperator(s.relay), budget: s.budget, refusals: s.refusals, log: s.log,
		tls: s.cert != nil, stop: s.stopServing,
	}
	mux := http.NewServeMux()
	for path, h := range map[string]http.HandlerFunc{
		"/debug/pprof/":        pprof.Index,
		"/debug/pprof/profile": pprof.Profile,
		"/debug/pprof/symbol":  pprof.Symbol,
		"/debug/pprof/trace":   pprof.Trace,
		"/metrics":             s.metrics(),
		"/api/streams":         s.adminStreams,
		"/healthz":             s.health,
		"/main":                a.mainPage(main),
		"/":                    page.Admin().ServeHTTP,
	} {
		mux.HandleFunc(path, s.refusals.Only("GET, HEAD", h))
	}
	mux.HandleFunc("DELETE /api/streams/{name...}", s.operator.ProtectDecision(a.endStream))
	mux.HandleFunc("/api/streams/{name...}", s.refusals.Only("GET, HEAD, DELETE", a.stream))
	mux.HandleFunc("/api/viewers/{id}", s.refusals.Only("DELETE", s.operator.ProtectDecision(a.endViewer)))
	mux.HandleFunc("/api/drain", s.refusals.Only("POST", s.operator.ProtectDecision(a.beginDrain)))
	return openHealth(mux, s.operator.Protect(cleanPaths(mux)))
}

// mainPage sends a browser to the page of the main listener. If that listener has all addresses of this machine, it is
// the one that the browser has found this machine by.
func (s *adminService) mainPage(main net.Addr) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		tcp, ok := main.(*net.TCPAddr)
		if !ok {
			s.refusals.Refuse(access.Reader, w, r, refuse.New(http.StatusNotFound, "the main listener is no TCP port"))
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

// maxListed is how many viewers one answer has at most.
const maxListed = 1000

// stream answers GET /api/streams/NAME: the stream and its viewers.
func (s *adminService) stream(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	var after uint64
	if text := r.URL.Query().Get("after"); text != "" {
		var err error
		if after, err = strconv.ParseUint(text, 10, 64); err != nil {
			s.refusals.Refuse(access.Reader, w, r,
				refuse.New(http.StatusBadRequest, "bad after=%.40q: want the number of a viewer", text))
			return
		}
	}
	if !s.budget.Lend(w, r, maxListed*streamBytes/4) {
		return
	}
	info, ok := s.operator.Stream(name)
	viewers, _ := s.operator.Viewers(name, after, maxListed)
	if !ok {
		s.refusals.Refuse(access.Reader, w, r, refuse.New(http.StatusNotFound, "no stream %.200q", name))
		return
	}
	writeJSON(w, struct {
		Stream  relay.StreamInfo   `json:"stream"`
		Viewers []relay.ViewerInfo `json:"viewers"`
	}{info, viewers})
}

const (
	// refuseEnded is for how long the publishers of a stream are refused that was ended: long enough for an encoder's user
	// to see it.
	refuseEnded = time.Minute
	// maxRefuseEnded bounds what the operator asks for, so that what was forgotten ends one day.
	maxRefuseEnded = 30 * 24 * time.Hour
)

// endStream answers DELETE /api/streams/NAME.
func (s *adminService) endStream(w http.ResponseWriter, r *http.Request) {
	name, lasts := r.PathValue("name"), refuseEnded
	text := r.URL.Query().Get("for")
	if text != "" {
		var err error
		if lasts, err = time.ParseDuration(text); err != nil || lasts < 0 || lasts > maxRefuseEnded {
			s.refusals.Refuse(access.Reader, w, r,
				refuse.New(http.StatusBadRequest, "bad for=%.40q: want a time such as 10m, up to %v", text, maxRefuseEnded))
			return
		}
	}
	if _, here := s.operator.Stream(name); !here && text == "" { // perhaps a typing error; a name may be refused in advance
		s.refusals.Refuse(access.Reader, w, r, refuse.New(http.StatusNotFound, "no stream %.200q", name))
		return
	}
	ended, err := s.operator.EndStream(name, lasts)
	if err != nil {
		s.refusals.Refuse(access.Reader, w, r, err)
		return
	}
	s.log.Info("the operator ends a stream", "stream", name, "was", ended, "refused for", lasts, "client", r.RemoteAddr)
	writeJSON(w, struct {
		Stream  string  `json:"stream"`
		Ended   bool    `json:"ended"`           // there was such a stream
		Refused float64 `json:"refused_seconds"` // for how long its publishers are refused
	}{name, ended, lasts.Seconds()})
}

// endViewer answers DELETE /api/viewers/ID.
func (s *adminService) endViewer(w http.ResponseWriter, r *http.Request) {
	id, err := strconv.ParseUint(r.PathValue("id"), 10, 64)
	if err != nil {
		s.refusals.Refuse(access.Reader, w, r,
			refuse.New(http.StatusBadRequest, "bad viewer %.40q: want its number", r.PathValue("id")))
		return
	}
	was, ok := s.operator.EndViewer(id)
	if !ok {
		s.refusals.Refuse(access.Reader, w, r, refuse.New(http.StatusNotFound, "no viewer %d", id))
		return
	}
	s.log.Info("the operator ends a viewer", "stream", was.Stream, "viewer", was.Address, "client", r.RemoteAddr)
	writeJSON(w, was)
}

// beginDrain answers POST /api/drain.
func (s *adminService) beginDrain(w http.ResponseWriter, r *http.Request) {
	s.log.Info("the operator ends the server", "client", r.RemoteAddr)
	w.WriteHeader(http.StatusAccepted)
	s.stop()
}
