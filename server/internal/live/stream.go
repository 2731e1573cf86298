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

// A stream is the sequence of frames from all publishers of a name, one after another. Its viewers
// stay when the publisher changes.
//
// These rules apply to streams and publishers:
//   - A stream is in Hub.streams from Hub.newStream to registrar.end. In that time it either has a
//     publisher or waits for one.
//   - A publisher has the stream, and writes to it, only from registrar.grant to
//     registrar.handOver.
//   - The first publisher determines the format. Only a stream of FLV can continue with another
//     publisher.
//   - If another node of the cluster owns the stream, this node reads the stream from the owner.
//     The publisher is then called a pull.
type stream struct {
	name    string
	log     *slog.Logger
	started time.Time
	memory  *millrace.Pool // the account of the blocks that hold its publishers' bytes

	// The frames in all formats. It is nil until viewers can find the stream. It is set while
	// Hub.mu is held.
	forms *rendition.Set
	// Makes the frames from the publisher's tags. It is nil until the format of the stream is
	// known, and always nil if the format is not FLV.
	feed *feed.Feed

	succession                       // guarded by Hub.mu
	ownership                        // guarded by Hub.mu
	hls        hlslive.SequenceStart // start of the next HLS window; guarded by Hub.mu

	frameAt   atomic.Int64 // time of the last frame; see nanotime
	returns   atomic.Int64 // number of publishers that came while the stream waited
	takeovers atomic.Int64

	mu          lock.Mutex
	viewerCount // guarded by mu
}

// A succession records which publisher a stream has, and which one comes next.
type succession struct {
	publisher *claim // the current publisher, or the last one while the stream waits
	successor *claim // takes over from publisher; nil while the stream waits
	pause     *pause // nil while there is a publisher
	ended     bool   // ended by the operator: the stream ends when its publisher has left
	until     int64  // time at which a pause ends; see registrar.waitLeft
}

// A pause is a time in which a stream has no publisher.
type pause struct {
	since int64 // the start of the pause; see nanotime
	timer *time.Timer
}

// An ownership records whether this node owns a stream of the cluster, and which other nodes read
// the stream from this node.
type ownership struct {
	lease      Lease                     // nil if this node is not the owner, or without a cluster
	epoch      uint64                    // the highest epoch of earlier leases, and of pulls
	peers      map[*fanout.Viewer]string // the addresses of other nodes that read the stream
	stopRecord context.CancelFunc        // ends the recording; nil if there never was one
}

func (o *ownership) tell() {
	if o.lease != nil {
		o.lease.Tell()
	}
}

func (o *ownership) cutPeers() {
	for peer := range o.peers {
		peer.End(fanout.Moved)
	}
}

func (o *ownership) edges() []string {
	var list []string
	for _, node := range o.peers {
		list = append(list, node)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// A viewerCount counts the viewers of a stream. It does not count other nodes that read the stream.
type viewerCount struct {
	viewers    int   // number of viewers, of all renditions
	leftAt     int64 // time when the last one left; see nanotime
	maxViewers int   // the publisher's own limit; 0: none
}

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

func (a *viewerCount) leave() {
	a.viewers--
	a.leftAt = nanotime()
}

// format returns the format in which a viewer with the request req gets s. It returns an error if s
// does not exist in the requested format.
func (s *stream) format(req WatchRequest) (rendition.Format, error) {
	f := s.forms.Format()
	switch {
	case req.AsIs || req.Format == f:
		return f, nil
	case f == rendition.Raw:
		return 0, refuse.New(http.StatusNotAcceptable,
			"stream %q is not FLV, so it cannot be had as %s: ask for /live/%[1]s", s.name,
			req.Format)
	case req.Format == rendition.MP4:
		return rendition.MP4, s.checkMP4()
	}
	return req.Format, nil
}

func (s *stream) checkMP4() error {
	if !s.forms.Facts().NoMP4() {
		return nil
	}
	return refuse.New(http.StatusNotAcceptable,
		"stream %q has nothing that MP4 is made of here (H.264, H.265, AAC): ask for /live/%[1]s.flv", s.name)
}
