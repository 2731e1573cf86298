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

// A stream consists of the frames from all publishers that use its name, one after another. The
// viewers of the stream stay connected when the publisher changes.
//
// These rules apply to streams and publishers:
//   - A stream is in Hub.streams from Hub.newStream to registrar.endStream. During that time, the
//     stream either has a publisher or waits for one.
//   - A publisher has the stream, and writes to it, only from registrar.grant to
//     registrar.handOver.
//   - The first publisher determines the format. Only an FLV stream can continue with another
//     publisher.
//   - If another node of the cluster owns the stream, this node reads the stream from the owner.
//     The publisher is then called a pull.
type stream struct {
	name    string
	log     *slog.Logger
	started time.Time
	memory  *millrace.Pool // counts the blocks that hold the publishers' bytes

	// The frames in all formats; nil until Hub.announce, which holds Hub.mu, sets them.
	forms *rendition.Set
	// Makes frames from the publisher's tags; nil until the format is known to be FLV.
	feed *feed.Feed

	succession                       // guarded by Hub.mu
	ownership                        // guarded by Hub.mu
	hls        hlslive.SequenceStart // start of the next HLS window; guarded by Hub.mu

	frameAt   atomic.Int64 // time of the last frame; see nanotime
	returns   atomic.Int64 // number of publishers that came during a pause
	takeovers atomic.Int64

	mu          lock.Mutex
	viewerCount // guarded by mu
}

// A succession records which publisher a stream has, and which publisher comes next.
type succession struct {
	publisher *claim // the current publisher; during a pause, the last one
	successor *claim // waits to take over from publisher; nil if there is none
	pause     *pause // nil while there is a publisher
	ended     bool   // the operator has ended the stream, but its publisher has not left yet
	until     int64  // time at which a pause must end; see registrar.waitLeft
}

// A pause is a time in which a stream has no publisher.
type pause struct {
	since int64 // the start of the pause; see nanotime
	timer *time.Timer
}

// An ownership records whether this node owns a stream of the cluster, and which other nodes read
// the stream from this node.
type ownership struct {
	lease Lease  // nil if this node is not the owner, or has no cluster
	epoch uint64 // the highest epoch of earlier leases, and of pulls
	// The lease had no epoch when s got it, and no viewer with a lease has come since it has one. In
	// the meantime, another node may have been the owner, with later frames.
	unconfirmed bool
	// The viewers with a lease. The values are the addresses of nodes that read the stream, or "" for
	// servers to which this node sends the stream.
	peers      map[*fanout.Viewer]string
	stopRecord context.CancelFunc // ends the recording; nil until it starts and after revoke
	stopPush   context.CancelFunc // ends Hub.push; nil until it starts and after revoke
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
		if node != "" {
			list = append(list, node)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// A viewerCount counts the viewers of a stream. It does not count other nodes that read the stream.
type viewerCount struct {
	viewers    int   // number of viewers of all renditions
	leftAt     int64 // time when a viewer last left; see nanotime
	maxViewers int   // the limit in the publisher's Terms; 0: no limit
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

// format returns the format in which s is sent to a viewer that sends the request req. It returns
// an error if s is not available in the requested format.
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
