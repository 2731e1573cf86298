// Package web serves live streams over HTTP at /live/: publishers that send a body, viewers of FLV,
// MP4 or bytes, and players of HLS.
//
// A [Service] asks the gate for permission, and answers; a [Handler] publishes and watches. HLS
// players get the HLS of this node, of another node, or of a store.
package web

import (
	"net/http"
	"time"

	"github.com/millrace-io/millrace/server/internal/live"
)

// A Handler answers publishers and viewers with the streams of a Hub.
type Handler struct {
	hub *live.Hub
	cfg *live.Config
}

// New returns a Handler for the streams of h.
func New(h *live.Hub) Handler { return Handler{h, h.Config()} }

// noWriteLimit takes the limit off an answer as a whole. A stream has no end: publishing and
// watching limit each silence instead.
func noWriteLimit(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
}
