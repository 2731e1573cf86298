// Package web serves live streams over HTTP at /live/. It has three kinds of clients: publishers,
// which send a body; viewers of FLV, MP4 or bytes; and players of HLS.
//
// A [Service] answers requests. Before that it asks the gate, which decides whether the client may
// publish or watch. A [Handler] publishes and watches. HLS players get the HLS of this node, of
// another node, or of a store.
package web

import (
	"net/http"
	"time"

	"github.com/millrace-io/millrace/server/internal/live"
)

// A Handler serves publishers and viewers of the streams of a Hub.
type Handler struct {
	hub *live.Hub
	cfg *live.Config
}

// New returns a Handler for the streams of h.
func New(h *live.Hub) Handler { return Handler{h, h.Config()} }

// noWriteLimit removes the time limit of the whole answer, because a stream may last forever. While
// a client publishes or watches, each silence is limited instead.
func noWriteLimit(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
}
