package relay

import (
	"time"

	"github.com/millrace-io/millrace/broadcast"
	"github.com/millrace-io/millrace/server/internal/relay/fanout"
)

// A format is how a rendition's bytes are made.
type format uint8

const (
	formatFLV format = iota
	formatMP4
	formatRTMP
	formatRaw // any bytes, as they come

	formats // how many there are
)

// formatNames has the name of each format, and its content type. A client that speaks RTMP gets RTMP.
var formatNames = [formats]struct{ name, contentType string }{
	formatFLV:  {name: "flv", contentType: "video/x-flv"},
	formatMP4:  {name: "mp4", contentType: "video/mp4"},
	formatRTMP: {name: "rtmp"},
	formatRaw:  {name: "raw", contentType: "application/octet-stream"},
}

func (f format) String() string      { return formatNames[f].name }
func (f format) contentType() string { return formatNames[f].contentType }

const (
	// batchBytes bounds what a viewer takes from the ring at a time. A viewer that stalls pins one batch beyond what the
	// ring keeps; 256 KiB is more than the kernel takes at once from a connection whose unsent bytes are bounded.
	batchBytes = 256 << 10
	// minMP4Frames is room for fragments of 90 seconds of sound, however small --keep-frames is.
	minMP4Frames = 1 << 12
)

// A rendition is one form of a stream. It is made once, and shared by all viewers who watch it.
type rendition struct {
	stream *stream
	format format
	head   []byte // what every viewer gets before anything from the ring
	ring   *broadcast.Ring
	fanout *fanout.Fanout // writes the ring to the viewers, and closes it

	// Of a rendition that is made from the stream; nil for the stream as it comes.
	ready <-chan struct{} // closed when what was there at the start has been made
	stop  func()          // ends the making

	viewers int // guarded by stream.mu
	readers int // beside them, guarded by stream.mu; see fragmentReader
}

func (s *stream) newRendition(f format, head []byte) *rendition {
	cfg := &s.hub.cfg
	frames := cfg.KeepFrames
	if f == formatMP4 {
		// The ring makes room for a piece of memory per frame. A fragment has one for each picture and each piece of sound,
		// and two of its own.
		frames = max(minMP4Frames, 2*frames)
	}
	r := &rendition{stream: s, format: f, head: head, ring: broadcast.New(
		broadcast.MaxBytes(cfg.KeepBytes), broadcast.MaxFrames(frames), broadcast.Latency(cfg.Latency))}
	r.fanout = fanout.New(r.ring, fanout.Config{Log: s.log, Counters: &s.hub.counters.fanout, Allowance: cfg.allowance(),
		Drop: r.policy() == Drop, Stall: cfg.StallTimeout})
	return r
}

// allowance returns how far behind a viewer may be.
func (c *Config) allowance() broadcast.Lag {
	return broadcast.Lag{Bytes: c.LagBytes, Frames: c.LagFrames, Time: c.LagTime}
}

// startAtKey returns a start at the newest keyframe. stream.mu is held.
func (r *rendition) startAtKey() fanout.Start {
	start := startAt(r.cursor())
	start.Age = r.stream.live.keyAge()
	return start
}

// startAtNextKey returns a start at the next keyframe. stream.mu is held.
func (r *rendition) startAtNextKey() fanout.Start { return startAt(r.cursor(broadcast.FromNextKey())) }

// keyAge returns the age of the newest keyframe that viewers can start at, or 0 if they begin without one. stream.mu is held.
func (r *rendition) keyAge() time.Duration {
	c := r.source()
	defer c.Close()
	return c.Lag().Time
}

func startAt(c *broadcast.Cursor) fanout.Start { return fanout.Start{Cursor: c, Lag: c.Lag()} }

// cursor returns a new viewer's place in the ring: at the newest key frame, unless opts say otherwise. As long as
// nothing has been published that a viewer cannot start after, it is at the head, so that the first viewers miss
// nothing. stream.mu is held.
func (r *rendition) cursor(opts ...broadcast.CursorOption) *broadcast.Cursor {
	cfg := &r.stream.hub.cfg
	batch := batchBytes
	if cfg.LagBytes > 0 {
		batch = int(min(batchBytes, max(cfg.LagBytes/4, 4<<10))) // what is taken and not yet sent counts as lag
	}
	limits := broadcast.Lag{} // a viewer that is dropped for its lag is not moved first
	if r.policy() == Skip {
		limits = cfg.allowance()
	}
	return r.newCursor(limits, append(opts, broadcast.BatchBytes(batch))...)
}

// source returns a cursor for what makes another rendition of r. It may be as far behind as is kept. stream.mu is held.
func (r *rendition) source(opts ...broadcast.CursorOption) *broadcast.Cursor {
	return r.newCursor(broadcast.Lag{}, opts...)
}

func (r *rendition) newCursor(limits broadcast.Lag, opts ...broadcast.CursorOption) *broadcast.Cursor {
	opts = append(opts,
		broadcast.MaxLagBytes(limits.Bytes), broadcast.MaxLagFrames(limits.Frames), broadcast.MaxLagTime(limits.Time))
	if r.format == formatRaw || r.format != formatMP4 && !r.stream.begun {
		opts = append(opts, broadcast.FromHead())
	}
	return r.ring.Cursor(opts...)
}

// policy returns what happens to a viewer that is too far behind. Frames can be left out of FLV and RTMP. Bytes of an
// unknown format have no place to go on from, and an MP4 player goes on with the sound at once but waits with the
// picture.
func (r *rendition) policy() Policy {
	if r.format == formatRaw || r.format == formatMP4 {
		return Drop
	}
	return r.stream.hub.cfg.LagPolicy
}

// startIsKept reports whether viewers can start at a keyframe that is kept.
func (r *rendition) startIsKept() bool { return r.ring.Stats().Start }
