package server

import (
	"net/http"
	"strings"
	"time"

	"github.com/millrace-io/millrace/server/internal/access"
	"github.com/millrace-io/millrace/server/internal/address"
	"github.com/millrace-io/millrace/server/internal/answer"
	"github.com/millrace-io/millrace/server/internal/hook"
	"github.com/millrace-io/millrace/server/internal/relay"
	"github.com/millrace-io/millrace/server/internal/streamname"
	"github.com/millrace-io/millrace/server/internal/web"
)

// A liveService answers at /live/: publishers, viewers and players of HLS.
type liveService struct {
	streams  web.Door
	gate     *access.Gate
	origins  *access.Origins
	budget   *answer.Budget
	refusals *access.Refusals
	hls      *hlsService
}

// serve answers everything at /live/NAME and /live/NAME/OBJECT. at is what follows /live/.
func (s *liveService) serve(w http.ResponseWriter, r *http.Request, at string) {
	name, object := streamname.Split(at)
	read := r.Method == http.MethodGet || r.Method == http.MethodHead
	allow := "GET, HEAD, POST, PUT, OPTIONS"
	if object != "" {
		allow = "GET, HEAD, OPTIONS"
	}
	switch {
	case read && object != "":
		s.hls.serve(w, r, name, object)
	case read:
		s.watch(w, r, name)
	case r.Method == http.MethodOptions:
		s.allowPlayers(w, r, allow)
	case object == "" && (r.Method == http.MethodPost || r.Method == http.MethodPut):
		s.publish(w, r, name)
	default:
		s.refusals.RefuseMethod(w, r, allow)
	}
}

// allowPlayers answers OPTIONS: a browser asks before a player on another site sends a header of its own. The player
// may only watch.
func (s *liveService) allowPlayers(w http.ResponseWriter, r *http.Request, allow string) {
	h := w.Header()
	h.Set("Allow", allow)
	if s.origins.Allow(h, r) {
		h.Set("Access-Control-Allow-Methods", "GET, HEAD")
		h.Set("Access-Control-Allow-Headers", "Authorization, Range")
		h.Set("Access-Control-Max-Age", "86400")
	}
	w.WriteHeader(http.StatusNoContent)
}

// publish answers POST and PUT /live/NAME: the body is the stream.
func (s *liveService) publish(w http.ResponseWriter, r *http.Request, path string) {
	name, err := streamname.Published(path)
	if err == nil {
		err = s.gate.Policy().CheckPublish(r, name)
	}
	if err == nil {
		noWriteLimit(w)
		answer.Of(r).Wait()
		err = s.publishAs(w, r, name)
	}
	if err != nil {
		s.budget.LimitWrite(w)
		if full := answer.Of(r).Resume(0); full != nil {
			s.budget.RefuseFull(w, r, full)
			return
		}
		s.refusals.Refuse(access.Publisher, w, r, err)
	}
}

// watch answers GET and HEAD /live/NAME, NAME.flv and NAME.mp4.
func (s *liveService) watch(w http.ResponseWriter, r *http.Request, name string) {
	s.origins.Allow(w.Header(), r)
	noWriteLimit(w)
	answer.Of(r).Wait()
	var err error
	if node, ok := access.NodeOf(r); ok {
		err = s.streams.WatchNode(w, r, name, node)
	} else if err = address.Of(r.Context()).Viewer(); err == nil {
		err = s.watchAs(w, r, name)
	}
	if err != nil {
		s.budget.RefuseViewer(w, r, err)
	}
}

// publishAs is web.Door.Publish, under the name that the hook says if there is one.
func (s *liveService) publishAs(w http.ResponseWriter, r *http.Request, name string) error {
	name, terms, err := s.gate.Ask(r.Context(), s.gate.Question(hook.Publish, r, name, "http"))
	if err != nil {
		return err
	}
	if err = s.streams.Publish(w, r, name, terms); err != nil {
		terms.End(err.Error(), 0)
	}
	return err
}

// watchAs is web.Door.Watch, of the stream that the hook says if there is one.
func (s *liveService) watchAs(w http.ResponseWriter, r *http.Request, path string) (err error) {
	var terms relay.Terms
	if s.gate.HasHook() {
		name := streamname.Of(path)
		ext := path[len(name):]
		if err := streamname.Check(name); err != nil {
			return err
		}
		q := s.gate.Question(hook.PlayBegin, r, name, "http"+strings.ReplaceAll(ext, ".", "-"))
		if name, terms, err = s.gate.Ask(r.Context(), q); err != nil {
			return err
		}
		path = name + ext
	}
	switch err = s.streams.Watch(w, r, path, terms); {
	case err != nil:
		terms.End(err.Error(), 0)
	case r.Method == http.MethodHead:
		terms.End("HEAD", 0)
	}
	return err
}

// noWriteLimit takes the limit off an answer as a whole. A stream has no end: publishing and watching limit each
// silence instead.
func noWriteLimit(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
}
