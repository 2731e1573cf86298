package live

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/broadcast"
	"github.com/millrace-io/millrace/media/flv"
	"github.com/millrace-io/millrace/media/mp4"
	"github.com/millrace-io/millrace/server/internal/live/hlslive"
	"github.com/millrace-io/millrace/server/internal/live/rendition"
	"github.com/millrace-io/millrace/server/internal/memory"
	"github.com/millrace-io/millrace/server/internal/refuse"
)

// A Policy says what happens to a viewer that lags more than allowed.
type Policy string

const (
	// Skip moves the viewer to the newest keyframe. The viewer loses the frames in between.
	Skip Policy = "skip"
	// Drop closes the viewer's connection.
	Drop Policy = "drop"
)

// A Takeover says whether a second publisher may replace the publisher of a stream.
type Takeover string

const (
	// TakeoverAlways replaces the first publisher. The second publisher continues the stream.
	TakeoverAlways Takeover = "always"
	// TakeoverStalled replaces the first publisher only if it has sent nothing for StalledAfter.
	TakeoverStalled Takeover = "stalled"
	// TakeoverNever refuses the second publisher.
	TakeoverNever Takeover = "never"
)

// Config configures a Hub. Error messages name the program's flags, such as --max-viewers.
type Config struct {
	MaxStreams       int // limits the streams; the publisher of a further stream gets 503
	MaxViewers       int // limits all viewers, including waiting viewers; a further viewer gets 503
	MaxStreamViewers int // limits the viewers per stream; a further viewer gets 503

	PublishTimeout  time.Duration // a publisher that sends nothing for this long gets 408
	PublisherReturn time.Duration
	Takeover        Takeover // applies when a second publisher comes; "" means TakeoverAlways

	// How long a viewer waits for a publisher before the viewer gets 404. If ViewerWait is 0, the
	// viewer does not wait. In a cluster, the viewer waits for ViewerWait or pullWait, whichever is
	// longer.
	ViewerWait time.Duration
	// A viewer that accepts no data for this long is disconnected, even if LagPolicy is Skip.
	StallTimeout time.Duration

	KeepBytes   int64 // limits the bytes that a stream keeps
	KeepFrames  int   // limits the frames that a stream keeps
	MaxTagBytes int   // limits the data of an FLV tag

	Latency time.Duration

	HLS hlslive.Config

	// Memory limits the total memory of all streams. If it is nil, the total is not limited.
	Memory *memory.Budget

	// HLSStore keeps HLS segments where other nodes find them. If it is nil, segments are kept only
	// by this server.
	HLSStore hlslive.SegmentStore

	// Cluster shares streams with other servers. If it is nil, this server is alone.
	Cluster Cluster

	// Record returns a new recorder for a stream, or nil to record nothing. It is called once for
	// each stream. In a cluster it is also called each time that this node becomes the stream's
	// owner again. The stream's previous Recorder is closed before Record is called. Record must
	// not block.
	Record func(name string) Recorder

	// Push sends the named stream on to other servers until ctx ends. The URLs in to come from the
	// publisher's Terms; the program may have others. The Hub calls Push when the stream gets its
	// first publisher at this node. ctx ends when the stream ends, when another node becomes its
	// owner, and when the Hub closes. Push must not block, and may be nil.
	Push func(ctx context.Context, name string, to []string)

	LagBytes  int64
	LagFrames int           // how many frames a viewer may lag; 0: as many as the stream keeps
	LagTime   time.Duration // how long a viewer may lag; 0: no limit
	LagPolicy Policy        // what happens to a viewer that exceeds one of these limits
	Unsent    int

	Log *slog.Logger
}

func (c *Config) forms(all *rendition.Counters) rendition.Config {
	return rendition.Config{KeepBytes: c.KeepBytes, KeepFrames: c.KeepFrames, MaxTag: c.MaxTag(),
		Latency: c.Latency,
		Lag:     broadcast.Lag{Bytes: c.LagBytes, Frames: c.LagFrames, Time: c.LagTime},
		Drop:    c.LagPolicy == Drop, Stall: c.StallTimeout, Counters: all}
}

// MaxTag returns the maximum size of a tag's data, in bytes.
func (c *Config) MaxTag() int { return min(c.MaxTagBytes, flv.MaxData) }

func tooManyViewers(limit int) error {
	return refuse.New(http.StatusServiceUnavailable,
		"the server has %d viewers, as many as --max-viewers allows", limit).For(refuse.Limit)
}

// tooManyStreams returns the error that refuses another stream. The caller must hold Hub.mu.
func (c *Config) tooManyStreams() error {
	return refuse.New(http.StatusServiceUnavailable,
		"the server has %d streams, as many as --max-streams allows",
		c.MaxStreams).For(refuse.Limit)
}

func errAbsent(name string) error {
	return refuse.New(http.StatusNotFound, "no stream %q: it has no publisher", name)
}

// absentError returns the error for a viewer that has waited for the stream in vain.
func (c *Config) absentError(name string) error {
	if c.Cluster != nil && !c.Cluster.Reachable() {
		return refuse.New(http.StatusServiceUnavailable,
			"it cannot be found out at present where the stream is").After(retryAfter)
	}
	return errAbsent(name)
}

const (
	// StalledAfter is how long a publisher must be silent to count as stalled. A working encoder
	// sends several times a second.
	StalledAfter = 2 * time.Second
	// LeastStay is how long a publisher keeps its stream before another publisher may take over.
	// Without this minimum, two encoders that reconnect immediately would replace each other
	// hundreds of times a second, and neither encoder would send a video frame.
	LeastStay = time.Second
	// cleanEndWait limits how long a stream waits for its next publisher if the last publisher has
	// ended without an error. The stream waits because an encoder that restarts also ends without
	// an error. A pull from another node also ends without an error when the encoder moves to
	// another node.
	cleanEndWait = 2 * time.Second
)

const (
	// pullWait limits how long a viewer in a cluster waits for a stream that this node does not
	// have yet. If Config.ViewerWait is longer, ViewerWait is the limit instead.
	pullWait = 2 * time.Second
	// pullIdle is how long a pull continues after its stream's last viewer has left. A player that
	// reconnects in this time finds the stream.
	pullIdle = 5 * time.Second
	// retryAfter is the delay after which a viewer may try again if the node with the stream could
	// not be found or reached.
	retryAfter = 2 * time.Second
)

// A Cluster shares the streams of this server with other servers. Its methods may be called from
// any goroutine. Only Claim and IsElsewhere may block. No method of a Cluster or a [Lease] may call
// the Hub, because the caller may hold the lock of the Hub.
type Cluster interface {
	// Claim makes this node the owner of a stream that has just got a publisher. If this node
	// already owns the stream, Claim returns the same Lease as before. If the owner cannot be
	// determined yet, the Epoch of the returned Lease is 0 until it is determined. The error is a
	// [refuse.Refusal], or the cause of ctx if ctx has ended.
	Claim(ctx context.Context, name string) (Lease, error)

	// Want tells the cluster that viewers here want a stream that this node does not own. See
	// [Peers.Wanted].
	Want(name string)

	// IsElsewhere reports whether another node is known to own the named stream.
	IsElsewhere(ctx context.Context, name string) bool

	// Reachable reports whether the owner of a stream can be determined.
	Reachable() bool
}

// A Lease is a node's ownership of a stream. Two Leases can be compared with ==.
type Lease interface {
	// Epoch returns the number of this ownership. The number is greater than the numbers of all
	// earlier ownerships of the stream. Until the number is known, Epoch returns 0.
	Epoch() uint64

	// Current reports whether this node was known to be the owner a moment ago. For example,
	// Current returns false if this process was stopped for longer than a lease lasts. While
	// Current returns false, the Hub sends nothing to other nodes.
	Current() bool

	// Held reports whether this node has neither lost nor released the ownership. When [Peers.Lost]
	// is called, Held already returns false.
	Held() bool

	// Tell announces to the cluster that the result of [Peers.Silent] has changed, because the
	// publisher has left or returned.
	Tell()

	// Release gives up the ownership. If Held returns false, Release does nothing.
	Release()
}

// A Recorder records the frames of one stream. The methods must not block. Only one goroutine calls
// them.
type Recorder interface {
	// Init receives the init segment of the next fragments, and takes ownership of body.
	Init(body *millrace.Chain)
	Add(f mp4.FragmentInfo, body *millrace.Chain) // takes ownership of body
	Close()                                       // called after the last fragment
}
