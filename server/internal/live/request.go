package live

import "github.com/millrace-io/millrace/server/internal/live/rendition"

// A WatchRequest describes what a viewer wants to watch.
type WatchRequest struct {
	Name   string // of the stream
	Format rendition.Format
	AsIs   bool   // in the format that the publisher sends, instead of Format
	Next   bool   // begin at the next keyframe, and not at the newest one
	Remote string // the viewer's address
	Node   string // the address of the node that asks; "" for a viewer
	Terms  Terms
}
