// Package web serves live streams over HTTP at /live/. Its clients are publishers that send a body,
// viewers of FLV, MP4 or bytes, and players of HLS.
//
// A [Service] asks the gate for permission, and answers requests. A [Handler] publishes and
// watches. HLS players get the HLS of this node, of another node, or of a store.
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

// noWriteLimit removes the time limit of the whole answer, because a stream may last forever.
// Publishing and watching limit each silence instead.
func noWriteLimit(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
}
