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

// A Policy says what happens to a viewer that is further behind than its allowance.
type Policy string

const (
	// Skip moves the viewer forward to the newest key frame. It loses pictures, and stays.
	Skip Policy = "skip"
	// Drop closes the viewer's connection.
	Drop Policy = "drop"
)

// A Takeover says what happens when a publisher comes to a stream that has one.
type Takeover string

const (
	// TakeoverAlways ends the publisher that is there: the later one goes on with the stream.
	TakeoverAlways Takeover = "always"
	// TakeoverStalled does so if the publisher that is there has sent nothing for StalledAfter.
	TakeoverStalled Takeover = "stalled"
	// TakeoverNever refuses the later one.
	TakeoverNever Takeover = "never"
)

// Config is what can be chosen about a Hub. The names of the flags in messages are those of millrace serve.
type Config struct {
	MaxStreams       int // streams at a time; one more gets 503
	MaxViewers       int // viewers in all, including those that wait for a publisher; one more gets 503
	MaxStreamViewers int // viewers per stream; one more gets 503

	PublishTimeout  time.Duration // a publisher that sends nothing for this long gets 408
	PublisherReturn time.Duration // how long a stream waits for a publisher that is gone; 0: it ends with its publisher
	Takeover        Takeover      // what happens when a second publisher comes; "" means TakeoverAlways

	ViewerWait   time.Duration // how long a viewer waits for a publisher before it gets 404; 0: not at all, when alone
	StallTimeout time.Duration // a viewer that takes nothing for this long is disconnected, also with LagPolicy Skip

	KeepBytes   int64 // what a stream keeps, in bytes
	KeepFrames  int   // and in frames
	MaxTagBytes int   // the longest data of an FLV tag

	Latency time.Duration // how long a frame may wait to be sent together with others; 0: not at all

	HLS hlslive.Config

	// Memory is what all of it may take; nil: as much as the other limits allow.
	Memory *memory.Budget

	// HLSStore keeps segments of HLS where other nodes find them; nil: they are here only.
	HLSStore hlslive.SegmentStore

	// Cluster is what streams are shared with; nil: this server is alone.
	Cluster Cluster

	// Record returns what records the stream of a name from its beginning to its end, or nil. It is called once for each
	// stream, or each time that this node of a cluster has come to own it, after the Recorder before of that name was
	// closed. It must not wait. A nil Record records nothing.
	Record func(name string) Recorder

	LagBytes  int64         // a viewer may be this many bytes behind; 0: as many as the stream keeps
	LagFrames int           // or this many frames; 0: as many as the stream keeps
	LagTime   time.Duration // or this long; 0: no limit
	LagPolicy Policy        // what happens beyond
	Unsent    int           // bytes that the kernel may hold unsent for a viewer; 0: the system's default

	Log *slog.Logger
}

// forms returns what applies to the renditions of streams.
func (c *Config) forms(all *rendition.Counters) rendition.Config {
	return rendition.Config{KeepBytes: c.KeepBytes, KeepFrames: c.KeepFrames, MaxTag: c.MaxTag(), Latency: c.Latency,
		Lag:  broadcast.Lag{Bytes: c.LagBytes, Frames: c.LagFrames, Time: c.LagTime},
		Drop: c.LagPolicy == Drop, Stall: c.StallTimeout, Counters: all}
}

// MaxTag returns the longest data of a tag, in bytes.
func (c *Config) MaxTag() int { return min(c.MaxTagBytes, flv.MaxData) }

func tooManyViewers(limit int) error {
	return refuse.New(http.StatusServiceUnavailable, "the server has %d viewers, as many as --max-viewers allows", limit).For(refuse.Limit)
}

// tooManyStreams refuses another stream. Hub.mu is held.
func (c *Config) tooManyStreams() error {
	return refuse.New(http.StatusServiceUnavailable,
		"the server has %d streams, as many as --max-streams allows", c.MaxStreams).For(refuse.Limit)
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
	// LeastStay is how long a publisher has its stream at least before a later one takes over. Two encoders that both come
	// back at once would otherwise replace each other hundreds of times a second, before either has sent a picture.
	LeastStay = time.Second
	// cleanEndWait is how long a stream waits after a clean end, which is also how an encoder ends that is restarted, and how
	// the owner of a pulled stream tells of the end when the encoder has moved to another node.
	cleanEndWait = 2 * time.Second
)

const (
	// pullWait is how long a viewer waits for a stream of another node, at least.
	pullWait = 2 * time.Second
	// pullIdle is how long a stream is pulled on after its last viewer has left: a player that comes back finds it.
	pullIdle = 5 * time.Second
	// retryAfter is when a viewer may come again if it could not be found out where its stream is.
	retryAfter = 2 * time.Second
)

// A Cluster is the other servers that the streams of this one are shared with. Its methods may be called from any
// goroutine. Claim may wait; the others, and those of a [Lease], do not, and call no method of a Hub before they
// return.
type Cluster interface {
	// Claim makes this node the owner of the stream of that name, for which a publisher has come. A claim of a stream that
	// this node owns returns the same Lease. An error is a [refuse.Refusal], or the cause of ctx's end. If it cannot be found out
	// who owns the stream, Claim returns a Lease whose Epoch is 0 until it can.
	Claim(ctx context.Context, name string) (Lease, error)

	// Want says that viewers here want a stream that this node does not own. See [Peers.Wanted].
	Want(name string)

	// Reachable reports whether it can be found out who owns a stream.
	Reachable() bool
}

// A Lease is a node's ownership of a stream. Leases can be compared.
type Lease interface {
	// Epoch is the number of this ownership: greater than that of every owner before. 0: there is none yet.
	Epoch() uint64

	// Current reports whether this node was the owner a moment ago, as far as it can be known. If it was not, because this
	// process was stopped for longer than a lease lasts, other nodes get nothing until it is.
	Current() bool

	// Held reports whether the ownership is neither lost nor released. A lease is no longer held when [Peers.Lost] is
	// called.
	Held() bool

	// Tell says that what Peers.Silent returns has changed: the publisher is away, or is back.
	Tell()

	// Release gives the stream up. It does nothing if the ownership is not held.
	Release()
}

// A Recorder keeps what a stream consists of. Its methods never wait, and are called by one goroutine.
type Recorder interface {
	Init(body *millrace.Chain)                    // the init segment of the fragments that come; takes ownership of body
	Add(f mp4.FragmentInfo, body *millrace.Chain) // takes ownership of body
	Close()                                       // the stream has ended
}
