package server

import (
	"errors"
	"net/http"

	"github.com/millrace-io/millrace/internal/relay"
)

// publish answers POST and PUT /live/NAME: the body is the stream.
func (s *Server) publish(w http.ResponseWriter, r *http.Request) {
	name, err := relay.PublishName(r.PathValue("name"))
	if err != nil {
		refuseBody(w, r, relayStatus(err), err.Error())
		return
	}
	if status, reason := s.mayPublish(w, r, "publisher refused", "stream", name, "publisher", r.RemoteAddr); status != 0 {
		refuseBody(w, r, status, reason)
		return
	}
	if err := s.relay.Publish(w, r, name); err != nil {
		status := relayStatus(err)
		s.log.Warn("publisher refused", "stream", name, "publisher", r.RemoteAddr, "status", status, "reason", err)
		refuseBody(w, r, status, err.Error())
	}
}

// watch answers GET and HEAD /live/NAME, NAME.flv and NAME.mp4.
func (s *Server) watch(w http.ResponseWriter, r *http.Request) {
	// A page on another host may play the stream.
	w.Header().Set("Access-Control-Allow-Origin", "*")
	if err := s.relay.Watch(w, r, r.PathValue("name")); err != nil {
		refuse(w, relayStatus(err), err.Error())
	}
}

// relayStatus returns the status for an error of package relay.
func relayStatus(err error) int {
	var refused *relay.Refusal
	if errors.As(err, &refused) {
		return refused.Status
	}
	return http.StatusServiceUnavailable // the client has gone away
}
