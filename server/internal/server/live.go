package server

import (
	"net/http"
	"time"

	"github.com/millrace-io/millrace/server/internal/address"
	"github.com/millrace-io/millrace/server/internal/refuse"
	"github.com/millrace-io/millrace/server/internal/streamname"
)

// publish answers POST and PUT /live/NAME: the body is the stream.
func (s *Server) publish(w http.ResponseWriter, r *http.Request, path string) {
	name, err := streamname.Published(path)
	if err == nil {
		err = s.auth.Load().checkPublish(r, name)
	}
	if err == nil {
		noWriteLimit(w)
		answerOf(r).wait()
		err = s.publishAs(w, r, name)
	}
	if err != nil {
		s.budget.limitWrite(w)
		if full := answerOf(r).resume(0); full != nil {
			s.budget.refuseFull(w, r, full)
			return
		}
		s.refusals.refuse(clientPublisher, w, r, err)
	}
}

// watch answers GET and HEAD /live/NAME, NAME.flv and NAME.mp4.
func (s *Server) watch(w http.ResponseWriter, r *http.Request, name string) {
	s.origins.Load().allow(w.Header(), r)
	noWriteLimit(w)
	answerOf(r).wait()
	var err error
	if fromNode(r) {
		err = s.relay.WatchPeer(w, r, name, askingNode(r))
	} else if err = address.Of(r.Context()).Viewer(); err == nil {
		err = s.watchAs(w, r, name)
	}
	if err != nil {
		s.refuseViewer(w, r, err)
	}
}

// refuseViewer refuses a request with an error of package relay.
func (s *Server) refuseViewer(w http.ResponseWriter, r *http.Request, err error) {
	s.budget.limitWrite(w)
	if full := answerOf(r).resume(0); full != nil {
		s.budget.refuseFull(w, r, full)
		return
	}
	if r.Context().Err() == nil { // otherwise the client has gone away
		s.refusals.noteRequest(clientViewer, r, err)
	}
	writeReason(w, refuse.SetHeader(w.Header(), err), err.Error())
}

// noWriteLimit takes the limit off an answer as a whole. A stream has no end: publishing and watching limit each
// silence instead.
func noWriteLimit(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
}
