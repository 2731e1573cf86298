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

// A Policy decides about a viewer that lags more than it may.
type Policy string

const (
	// Skip moves the viewer to the newest keyframe. The viewer loses the frames before it, and
	// stays.
	Skip Policy = "skip"
	// Drop closes the viewer's connection.
	Drop Policy = "drop"
)

// A Takeover decides between the publisher of a stream and a second one.
type Takeover string

const (
	// TakeoverAlways replaces the first publisher; the second one continues the stream.
	TakeoverAlways Takeover = "always"
	// TakeoverStalled does so if the publisher that is there has sent nothing for StalledAfter.
	TakeoverStalled Takeover = "stalled"
	// TakeoverNever refuses the later one.
	TakeoverNever Takeover = "never"
)

// Config configures a Hub. Messages name the flags of millrace serve.
type Config struct {
	MaxStreams       int // streams at a time; one more gets 503
	MaxViewers       int // limits all viewers, including waiting ones; the next one gets 503
	MaxStreamViewers int // viewers per stream; one more gets 503

	PublishTimeout time.Duration // a publisher that sends nothing for this long gets 408
	// How long a stream waits for a publisher that is gone; 0: it ends with its publisher.
	PublisherReturn time.Duration
	Takeover        Takeover // decides about a second publisher; "" means TakeoverAlways

	// How long a viewer waits for a publisher before it gets 404; 0: not at all, when alone.
	ViewerWait time.Duration
	// A viewer that takes nothing for this long is disconnected, also with LagPolicy Skip.
	StallTimeout time.Duration

	KeepBytes   int64 // limits the bytes that a stream keeps
	KeepFrames  int   // and in frames
	MaxTagBytes int   // the longest data of an FLV tag

	// How long a frame may wait to be sent together with others; 0: not at all.
	Latency time.Duration

	HLS hlslive.Config

	// Memory limits the memory of all streams together; nil: only the other limits apply.
	Memory *memory.Budget

	// HLSStore keeps segments of HLS where other nodes find them; nil: they are here only.
	HLSStore hlslive.SegmentStore

	// Cluster shares streams with other servers; nil: this server is alone.
	Cluster Cluster

	// Record returns the recorder of a stream, or nil. It is called once for each stream, and again
	// each time that this node of a cluster becomes the owner, after the stream's previous Recorder
	// was closed. It must not block. A nil Record records nothing.
	Record func(name string) Recorder

	// A viewer may be this many bytes behind; 0: as many as the stream keeps.
	LagBytes  int64
	LagFrames int           // or this many frames; 0: as many as the stream keeps
	LagTime   time.Duration // or this long; 0: no limit
	LagPolicy Policy        // applies to a viewer beyond these limits
	// Bytes that the kernel may hold unsent for a viewer; 0: the system's default.
	Unsent int

	Log *slog.Logger
}

// forms returns the configuration of renditions.
func (c *Config) forms(all *rendition.Counters) rendition.Config {
	return rendition.Config{KeepBytes: c.KeepBytes, KeepFrames: c.KeepFrames, MaxTag: c.MaxTag(),
		Latency: c.Latency,
		Lag:     broadcast.Lag{Bytes: c.LagBytes, Frames: c.LagFrames, Time: c.LagTime},
		Drop:    c.LagPolicy == Drop, Stall: c.StallTimeout, Counters: all}
}

// MaxTag returns the longest data of a tag, in bytes.
func (c *Config) MaxTag() int { return min(c.MaxTagBytes, flv.MaxData) }

func tooManyViewers(limit int) error {
	return refuse.New(http.StatusServiceUnavailable,
		"the server has %d viewers, as many as --max-viewers allows", limit).For(refuse.Limit)
}

// tooManyStreams refuses another stream. Hub.mu is held.
func (c *Config) tooManyStreams() error {
	return refuse.New(http.StatusServiceUnavailable,
		"the server has %d streams, as many as --max-streams allows",
		c.MaxStreams).For(refuse.Limit)
}

// errAbsent refuses viewers of a stream that there is not.
func errAbsent(name string) error {
	return refuse.New(http.StatusNotFound, "no stream %q: it has no publisher", name)
}

// absent refuses viewers that have waited for a stream.
func (c *Config) absent(name string) error {
	if c.Cluster != nil && !c.Cluster.Reachable() {
		return refuse.New(http.StatusServiceUnavailable,
			"it cannot be found out at present where the stream is").After(retryAfter)
	}
	return errAbsent(name)
}

const (
	// StalledAfter is longer than an encoder is silent that works: it sends several times a second.
	StalledAfter = 2 * time.Second
	// LeastStay is how long a publisher keeps its stream before another one may take over. Without
	// it, two encoders that both reconnect at once would replace each other hundreds of times a
	// second, and neither would send a video frame.
	LeastStay = time.Second
	// cleanEndWait is how long a stream waits after a clean end. A restarted encoder ends cleanly
	// too, and so does a pulled stream after its encoder moved to another node.
	cleanEndWait = 2 * time.Second
)

const (
	// pullWait is how long a viewer waits for a stream of another node, at least.
	pullWait = 2 * time.Second
	// pullIdle is how long a stream is pulled on after its last viewer has left: a player that
	// comes back finds it.
	pullIdle = 5 * time.Second
	// retryAfter is when a viewer may come again if it could not be found out where its stream is.
	retryAfter = 2 * time.Second
)

// A Cluster shares the streams of this server with other servers. Its methods may be called from
// any goroutine. Claim may block. The other methods, and the methods of a [Lease], do not block,
// and call no method of a Hub before they return.
type Cluster interface {
	// Claim makes this node the owner of a stream that has just got a publisher. If this node owns
	// the stream already, Claim returns the same Lease. An error is a [refuse.Refusal], or the
	// cause of ctx's end. While the owner cannot be determined, the Lease has Epoch 0.
	Claim(ctx context.Context, name string) (Lease, error)

	// Want says that viewers here want a stream that this node does not own. See [Peers.Wanted].
	Want(name string)

	// Reachable reports whether it can be found out who owns a stream.
	Reachable() bool
}

// A Lease is a node's ownership of a stream. Leases can be compared.
type Lease interface {
	// Epoch is the number of this ownership, greater than that of every earlier owner. It is 0
	// until the number is known.
	Epoch() uint64

	// Current reports whether this node was the owner a moment ago, as far as it can be known. If
	// it was not, because this process was stopped for longer than a lease lasts, other nodes get
	// nothing until it is.
	Current() bool

	// Held reports whether the ownership is neither lost nor released. A lease is no longer held
	// when [Peers.Lost] is called.
	Held() bool

	// Tell says that what Peers.Silent returns has changed: the publisher is away, or is back.
	Tell()

	// Release gives the stream up. It does nothing if the ownership is not held.
	Release()
}

// A Recorder records the frames of one stream. Its methods never block. One goroutine calls them.
type Recorder interface {
	// The init segment of the fragments that come; takes ownership of body.
	Init(body *millrace.Chain)
	Add(f mp4.FragmentInfo, body *millrace.Chain) // takes ownership of body
	Close()                                       // the stream has ended
}
