// Package web serves live streams over HTTP at /live/. Its clients are
//
//   - publishers, which send a stream as the body of a request,
//   - viewers, which receive a stream as FLV, as MP4, or unchanged,
//   - HLS players, which receive playlists and segments,
//   - browsers, which receive a page with a player, or a poster.
//
// A [Service] serves all requests. For each request, it first asks an access.Gate whether the
// client may publish or watch. A [Handler] then publishes or watches the stream. HLS players get
// HLS from this node, from another node, or from a store.
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

// noWriteLimit removes the time limit of a response, because a stream may last forever. Other code
// disconnects clients that transfer no data for too long.
func noWriteLimit(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
}
