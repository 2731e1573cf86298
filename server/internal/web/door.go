// Package web is the door of live streams over HTTP: publishers that send a body, and viewers of FLV, MP4 or bytes.
//
// It knows nothing of routes and of who may publish or watch: see package server.
package web

import "github.com/millrace-io/millrace/server/internal/relay"

// A Door answers publishers and viewers with the streams of a Hub.
type Door struct {
	hub *relay.Hub
	cfg *relay.Config
}

// New returns a Door to the streams of h.
func New(h *relay.Hub) Door { return Door{h, h.Config()} }
