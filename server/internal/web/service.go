package web

import (
	"net/http"
	"strings"

	"github.com/millrace-io/millrace/server/internal/access"
	"github.com/millrace-io/millrace/server/internal/answer"
	"github.com/millrace-io/millrace/server/internal/conn/address"
	"github.com/millrace-io/millrace/server/internal/hook"
	"github.com/millrace-io/millrace/server/internal/live"
	"github.com/millrace-io/millrace/server/internal/live/cluster"
	"github.com/millrace-io/millrace/server/internal/streamname"
)

// A Config has the parts of the server that a Service uses.
type Config struct {
	Hub      *live.Hub
	Gate     *access.Gate
	Origins  *access.Origins
	Budget   *answer.Budget
	Refusals *access.Refusals
	// Remote gets the HLS of streams that other nodes own. It is nil if there is no cluster.
	Remote *cluster.RemoteHLS
}

// A Service serves publishers, viewers and HLS players at /live/.
type Service struct {
	cfg     Config
	handler Handler
	hls     players
}

// NewService returns a Service.
func NewService(cfg Config) *Service {
	return &Service{cfg: cfg, handler: New(cfg.Hub),
		hls: players{cfg, live.NewHLS(cfg.Hub), live.NewAdmission(cfg.Hub), live.NewPeers(cfg.Hub)}}
}

// Serve serves all requests for /live/NAME, /live/NAME/OBJECT and /live/NAME/. path is the URL path
// without the prefix /live/.
func (s *Service) Serve(w http.ResponseWriter, r *http.Request, path string) {
	name, object := streamname.Split(path)
	read := r.Method == http.MethodGet || r.Method == http.MethodHead
	allow := "GET, HEAD, POST, PUT, OPTIONS"
	if !read && object == streamname.Player { // a publisher learns that the name is wrong
		name, object = path, ""
	}
	if object != "" {
		allow = "GET, HEAD, OPTIONS"
	}
	switch {
	case read && object == streamname.Player:
		if err := s.servePlayer(w, r, name); err != nil {
			s.cfg.Refusals.Refuse(access.Viewer, w, r, err)
		}
	case read && object != "":
		s.hls.serve(w, r, name, object)
	case read:
		s.watch(w, r, name)
	case r.Method == http.MethodOptions:
		s.allowPlayers(w, r, allow)
	case object == "" && (r.Method == http.MethodPost || r.Method == http.MethodPut):
		s.publish(w, r, name)
	default:
		s.cfg.Refusals.RefuseMethod(w, r, allow)
	}
}

// allowPlayers serves OPTIONS requests. Browsers send such a request before a player on another
// site sends a request with custom headers. The response allows the player to watch, but not to
// publish.
func (s *Service) allowPlayers(w http.ResponseWriter, r *http.Request, allow string) {
	h := w.Header()
	h.Set("Allow", allow)
	if s.cfg.Origins.Allow(h, r) {
		h.Set("Access-Control-Allow-Methods", "GET, HEAD")
		h.Set("Access-Control-Allow-Headers", "Authorization, Range")
		h.Set("Access-Control-Max-Age", "86400")
	}
	w.WriteHeader(http.StatusNoContent)
}

// publish serves POST and PUT requests for /live/NAME. The body is the stream.
func (s *Service) publish(w http.ResponseWriter, r *http.Request, path string) {
	name, err := streamname.Published(path)
	if err == nil {
		err = s.cfg.Gate.Policy().CheckPublish(r, name)
	}
	if err == nil {
		noWriteLimit(w)
		answer.Of(r).GiveBack()
		err = s.publishAs(w, r, name)
	}
	if err != nil {
		s.cfg.Budget.LimitWrite(w)
		if full := answer.Of(r).Resume(0); full != nil {
			s.cfg.Budget.RefuseFull(w, r, full)
			return
		}
		s.cfg.Refusals.Refuse(access.Publisher, w, r, err)
	}
}

// watch serves GET and HEAD requests for /live/NAME, NAME.flv and NAME.mp4.
func (s *Service) watch(w http.ResponseWriter, r *http.Request, name string) {
	s.cfg.Origins.Allow(w.Header(), r)
	noWriteLimit(w)
	answer.Of(r).GiveBack()
	var err error
	if node, ok := access.NodeOf(r); ok {
		err = s.handler.WatchNode(w, r, name, node)
	} else if err = address.Of(r.Context()).Viewer(); err == nil {
		err = s.watchAs(w, r, name)
	}
	if err != nil {
		s.cfg.Budget.RefuseViewer(w, r, err)
	}
}

// publishAs serves a publisher. name is the requested name of the stream. If there is a hook, the
// hook decides whether the client may publish, and may choose another name for the stream.
func (s *Service) publishAs(w http.ResponseWriter, r *http.Request, name string) error {
	name, terms, err := s.cfg.Gate.Ask(r.Context(),
		s.cfg.Gate.Question(hook.Publish, r, name, "http"))
	if err != nil {
		return err
	}
	if err = s.handler.Publish(w, r, name, terms); err != nil {
		terms.End(err.Error(), 0)
	}
	return err
}

// watchAs serves a viewer. path is the requested stream name with its extension. If there is a
// hook, the hook decides whether the client may watch, and may choose another name for the stream.
func (s *Service) watchAs(w http.ResponseWriter, r *http.Request, path string) (err error) {
	var terms live.Terms
	if s.cfg.Gate.HasHook() {
		name := streamname.Of(path)
		ext := path[len(name):]
		if err := streamname.Check(name); err != nil {
			return err
		}
		q := s.cfg.Gate.Question(hook.PlayBegin, r, name, "http"+strings.ReplaceAll(ext, ".", "-"))
		if name, terms, err = s.cfg.Gate.Ask(r.Context(), q); err != nil {
			return err
		}
		path = name + ext
	}
	switch err = s.handler.Watch(w, r, path, terms); {
	case err != nil:
		terms.End(err.Error(), 0)
	case r.Method == http.MethodHead:
		terms.End("HEAD", 0)
	}
	return err
}
