package live

import "github.com/millrace-io/millrace/server/internal/live/rendition"

// A WatchRequest describes what a viewer wants to watch.
type WatchRequest struct {
	Name   string // the stream's name
	Format rendition.Format
	AsIs   bool   // send the publisher's format instead of Format
	Next   bool   // begin at the next keyframe instead of the newest one
	Remote string // the viewer's address
	Node   string // the address of the node that sends the request; "" for a viewer
	Terms  Terms
}
