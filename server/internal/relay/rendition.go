package relay

import (
	"runtime"
	"sync/atomic"

	"github.com/millrace-io/millrace/broadcast"
	"github.com/millrace-io/millrace/server/internal/lock"
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
	// fanoutViewers is how many viewers one fanout has before a second one starts. Writing to 512 takes about 4 ms.
	fanoutViewers = 512
	// minMP4Frames is room for fragments of 90 seconds of sound, however small --keep-frames is.
	minMP4Frames = 1 << 12
)

// A rendition is one form of a stream. It is made once, and shared by all viewers who watch it.
type rendition struct {
	stream *stream
	format format
	head   []byte // what every viewer gets before anything from the ring
	ring   *broadcast.Ring

	reason atomic.Int32 // the disconnectReason of viewers that get everything; set before the ring is closed

	// Of a rendition that is made from the stream; nil for the stream as it comes.
	ready <-chan struct{} // closed when what was there at the start has been made
	stop  func()          // ends the making

	viewers int // guarded by stream.mu
	readers int // beside them, guarded by stream.mu; see fragmentReader

	mu      lock.Mutex
	fanouts []*fanout
}

func (s *stream) newRendition(f format, head []byte) *rendition {
	cfg := &s.hub.cfg
	frames := cfg.KeepFrames
	if f == formatMP4 {
		// The ring makes room for a piece of memory per frame. A fragment has one for each picture and each piece of sound,
		// and two of its own.
		frames = max(minMP4Frames, 2*frames)
	}
	return &rendition{stream: s, format: f, head: head, ring: broadcast.New(
		broadcast.MaxBytes(cfg.KeepBytes), broadcast.MaxFrames(frames), broadcast.Latency(cfg.Latency))}
}

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
		limits = broadcast.Lag{Bytes: cfg.LagBytes, Frames: cfg.LagFrames, Time: cfg.LagTime}
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

// close ends the rendition: its viewers get what is there, and end for the given reason.
func (r *rendition) close(why disconnectReason) {
	r.reason.Store(int32(why))
	_ = r.ring.Close()
}

// fanout returns the fanout that a new viewer belongs to: the one with the fewest viewers, or a new one when all have
// many and there is a processor for it.
func (r *rendition) fanout() *fanout {
	r.mu.Lock()
	defer r.mu.Unlock()
	var least *fanout
	for _, f := range r.fanouts {
		if least == nil || f.viewers.Load() < least.viewers.Load() {
			least = f
		}
	}
	if least == nil || least.viewers.Load() >= fanoutViewers && len(r.fanouts) < runtime.GOMAXPROCS(0) {
		least = newFanout(r)
		r.fanouts = append(r.fanouts, least)
	}
	least.viewers.Add(1)
	return least
}

// lag sums up what the fanouts saw when they last looked.
func (r *rendition) lag() (sum lagReport) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range r.fanouts {
		sum.add(f.report())
	}
	return sum
}

// startIsKept reports whether viewers can start at a keyframe that is kept.
func (r *rendition) startIsKept() bool { return r.ring.Stats().Start }
