package server

import (
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/millrace-io/millrace/internal/address"
	"github.com/millrace-io/millrace/internal/relay"
)

// publish answers POST and PUT /live/NAME: the body is the stream.
func (s *Server) publish(w http.ResponseWriter, r *http.Request, path string) {
	name, err := relay.PublishName(path)
	if err != nil {
		s.refused(clientPublisher, r, err)
		refuseBody(w, r, relayStatus(err), err.Error())
		return
	}
	if status, reason := s.mayPublish(w, r, clientPublisher, name); status != 0 {
		refuseBody(w, r, status, reason)
		return
	}
	noWriteLimit(w)
	if err := s.publishAs(w, r, name); err != nil {
		s.limitWrite(w)
		s.refused(clientPublisher, r, err)
		askForToken(w, relayStatus(err))
		refuseBody(w, r, relayStatus(err), err.Error())
	}
}

// watch answers GET and HEAD /live/NAME, NAME.flv and NAME.mp4.
func (s *Server) watch(w http.ResponseWriter, r *http.Request, name string) {
	s.origins.Load().allow(w.Header(), r)
	noWriteLimit(w)
	var err error
	if fromNode(r) {
		err = s.relay.WatchPeer(w, r, name, askingNode(r))
	} else if err = admitViewer(address.Of(r.Context())); err == nil {
		err = s.watchAs(w, r, name)
	}
	if err != nil {
		s.refuseViewer(w, r, err)
	}
}

// refuseViewer refuses a request with an error of package relay.
func (s *Server) refuseViewer(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() == nil { // otherwise the client has gone away
		s.refused(clientViewer, r, err)
	}
	var refused *relay.Refusal
	if errors.As(err, &refused) && refused.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(refused.RetryAfter.Seconds()))))
	}
	s.limitWrite(w)
	askForToken(w, relayStatus(err))
	refuse(w, relayStatus(err), err.Error())
}

// askForToken sets the header that an answer of 401 must have: a hook refuses so.
func askForToken(w http.ResponseWriter, status int) {
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="millrace"`)
	}
}

// noWriteLimit takes the limit off an answer as a whole. A stream has no end: publishing and watching limit each
// silence instead.
func noWriteLimit(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
}

// limitWrite sets when the client must have taken what is written next.
func (s *Server) limitWrite(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(s.cfg.StallTimeout))
}

// relayStatus returns the status for an error of package relay.
func relayStatus(err error) int {
	var refused *relay.Refusal
	if errors.As(err, &refused) {
		return refused.Status
	}
	return http.StatusServiceUnavailable // the client has gone away
}
