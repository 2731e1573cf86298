package live

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/server/internal/live/fanout"
	"github.com/millrace-io/millrace/server/internal/live/feed"
	"github.com/millrace-io/millrace/server/internal/live/hlslive"
	"github.com/millrace-io/millrace/server/internal/live/rendition"
	"github.com/millrace-io/millrace/server/internal/lock"
	"github.com/millrace-io/millrace/server/internal/refuse"
)

// A stream is the sequence of frames from the publishers of a name, one after the other. Its
// viewers stay from one publisher to the next.
//
// From Hub.newStream to registrar.end it is in Hub.streams, and either has a publisher, from
// registrar.grant to registrar.handOver, or waits for one. A publisher writes to the stream in this
// time only. The first publisher decides on the format; only FLV outlives it. In a cluster the
// publisher is a pull if another node owns the stream.
type stream struct {
	name    string
	log     *slog.Logger
	started time.Time
	memory  *millrace.Pool // an account of the blocks that its publishers' bytes are in

	// The frames in all formats; set under Hub.mu, and from then on viewers can find the stream.
	forms *rendition.Set
	// Makes the frames, for the publisher; nil before forms is set, and unless the format is FLV.
	feed *feed.Feed

	succession                       // guarded by Hub.mu
	ownership                        // guarded by Hub.mu
	hls        hlslive.SequenceStart // for its next window; guarded by Hub.mu

	frameAt   atomic.Int64 // when the last frame came; see now
	returns   atomic.Int64 // of publishers
	takeovers atomic.Int64

	mu          lock.Mutex
	viewerCount // guarded by mu
}

// A succession is who publishes a stream, one after the other.
type succession struct {
	publisher *claim // the current one, or while the stream waits the last one
	successor *claim // takes over from it; nil while the stream waits
	pause     *pause // nil while there is a publisher
	ended     bool   // by the operator: the stream goes when its publisher has gone
	until     int64  // when a pause ends; see registrar.left
}

// A pause is the time in which a stream has no publisher.
type pause struct {
	since int64 // see now
	timer *time.Timer
}

// An ownership is a stream's state in the cluster.
type ownership struct {
	lease      Lease                     // nil if this node does not own the stream, or is alone
	epoch      uint64                    // the highest one of earlier and pulled publishers
	peers      map[*fanout.Viewer]string // the addresses of other nodes that read it
	stopRecord context.CancelFunc        // nil if the stream is not, and was not, recorded
}

// tell says that other nodes are to know soon whether the stream has a publisher. Hub.mu is held.
func (o *ownership) tell() {
	if o.lease != nil {
		o.lease.Tell()
	}
}

// cutPeers ends the copies of the stream to other nodes. Hub.mu is held.
func (o *ownership) cutPeers() {
	for peer := range o.peers {
		peer.End(fanout.Moved)
	}
}

// edges returns the nodes that read the stream. Hub.mu is held.
func (o *ownership) edges() []string {
	var list []string
	for _, node := range o.peers {
		list = append(list, node)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// A viewerCount counts the viewers of a stream, without other nodes.
type viewerCount struct {
	viewers    int   // of all renditions
	leftAt     int64 // when one left last; see now
	maxViewers int   // the publisher's own limit; 0: none
}

// join adds one viewer if no limit forbids it. limit is that of the server.
func (a *viewerCount) join(limit int) error {
	if a.viewers >= limit {
		return refuse.New(http.StatusServiceUnavailable,
			"this stream has %d viewers, as many as --max-stream-viewers allows",
			limit).For(refuse.Limit)
	}
	if a.maxViewers > 0 && a.viewers >= a.maxViewers {
		return refuse.New(http.StatusServiceUnavailable,
			"this stream has %d viewers, as many as its publisher is allowed",
			a.maxViewers).For(refuse.Limit)
	}
	a.viewers++
	return nil
}

// leave removes one viewer.
func (a *viewerCount) leave() {
	a.viewers--
	a.leftAt = now()
}

// format returns the format for a viewer.
func (s *stream) format(want WatchRequest) (rendition.Format, error) {
	f := s.forms.Format()
	switch {
	case want.AsIs || want.Format == f:
		return f, nil
	case f == rendition.Raw:
		return 0, refuse.New(http.StatusNotAcceptable,
			"stream %q is not FLV, so it cannot be had as %s: ask for /live/%[1]s", s.name,
			want.Format)
	case want.Format == rendition.MP4:
		return rendition.MP4, s.checkMP4()
	}
	return want.Format, nil
}

// checkMP4 refuses viewers of MP4 if there is nothing for them.
func (s *stream) checkMP4() error {
	if !s.forms.Facts().NoMP4() {
		return nil
	}
	return refuse.New(http.StatusNotAcceptable,
		"stream %q has nothing that MP4 is made of here (H.264, H.265, AAC): ask for /live/%[1]s.flv", s.name)
}
