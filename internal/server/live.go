package server

import (
	"errors"
	"log/slog"
	"net/http"

	"github.com/millrace-io/millrace/internal/relay"
)

// newRelay returns the Hub that the streams at /live/ are in.
func newRelay(c *Config, log *slog.Logger) *relay.Hub {
	return relay.New(relay.Config{
		MaxStreams: c.MaxStreams, MaxViewers: c.MaxViewers, MaxStreamViewers: c.MaxStreamViewers,
		PublishTimeout: c.PublishTimeout, ViewerWait: c.ViewerWait, StallTimeout: c.StallTimeout,
		KeepBytes: c.KeepBytes, KeepFrames: c.KeepFrames, MaxTagBytes: c.MaxTagBytes,
		Latency:  c.Latency,
		LagBytes: c.LagBytes, LagFrames: c.LagFrames, LagTime: c.LagTime, LagPolicy: c.LagPolicy,
		Unsent: c.Unsent,
		Log:    log,
	})
}

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
