package rendition

import (
	"bytes"
	"context"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/broadcast"
	"github.com/millrace-io/millrace/server/internal/live/fanout"
	"github.com/millrace-io/millrace/server/internal/live/flvstream"
)

const (
	// batchBytes limits how much a viewer takes from the ring at a time. A stalled viewer pins one
	// batch in addition to what the ring keeps. 256 KiB is more than the kernel accepts at once
	// from a connection with a limit of unsent bytes.
	batchBytes = 256 << 10
	// minMP4Frames is room for the fragments of 90 seconds of audio, however small
	// Config.KeepFrames is.
	minMP4Frames = 1 << 12
)

// A Rendition is one format of a stream. It is made once, for all viewers who watch it.
type Rendition struct {
	*base
	format Format
	head   []byte // sent to each viewer before anything from the ring
	ring   *broadcast.Ring
	fanout *fanout.Fanout // writes the ring to the viewers, and closes it

	// Of a rendition that is made from the live one; nil for that one.
	ready <-chan struct{} // closed when the frames that were kept at the start have been converted
	stop  func()          // ends the conversion

	viewers int // guarded by mu
	readers int // FragmentReaders; guarded by mu
}

// newRendition returns a rendition without frames. head is sent to each viewer.
func newRendition(b *base, f Format, head []byte) *Rendition {
	frames := b.cfg.KeepFrames
	if f == MP4 {
		// The ring makes room for one piece of memory per frame. A fragment has one piece for each
		// of its frames, and two more.
		frames = max(minMP4Frames, 2*frames)
	}
	r := &Rendition{base: b, format: f, head: head, ring: broadcast.New(
		broadcast.MaxBytes(b.cfg.KeepBytes), broadcast.MaxFrames(frames),
		broadcast.Latency(b.cfg.Latency))}
	r.fanout = fanout.New(r.ring, fanout.Config{Log: b.log, Counters: &b.cfg.Counters.Fanout,
		Allowance: b.cfg.Lag,
		Drop:      r.drops(), Stall: b.cfg.Stall})
	return r
}

// Format returns the format of r.
func (r *Rendition) Format() Format { return r.format }

// Fanout returns the writer to the viewers of r.
func (r *Rendition) Fanout() *fanout.Fanout { return r.fanout }

// Stats describes the frames that r keeps for late viewers.
func (r *Rendition) Stats() broadcast.Stats { return r.ring.Stats() }

// Evict drops kept frames older than age, but the GOP that new viewers need only if all is set. It
// returns the number of bytes dropped.
func (r *Rendition) Evict(age time.Duration, all bool) int64 { return r.ring.Evict(age, all) }

// Head returns the bytes that a new viewer gets before any frame. An FLV header names the tracks
// that exist.
func (r *Rendition) Head() []byte {
	tracks := r.facts.Tracks.Load()
	if r.format != FLV || tracks == 0 {
		return r.head
	}
	head := bytes.Clone(r.head)
	head[4] = byte(tracks)
	return head
}

// StateTracks corrects the FLV metadata in batch from the offset from on: they name the tracks that
// exist, as Head does.
func (r *Rendition) StateTracks(batch *millrace.Chain, from int) {
	if tracks := r.facts.Tracks.Load(); r.format == FLV && tracks != 0 {
		flvstream.StateAll(r.memory, batch, from, tracks)
	}
}

// AwaitReady returns where a viewer begins that has joined for the next keyframe, and for which
// that was not known yet. Until a conversion has caught up, the keyframe that comes next may be an
// old one. After an error the caller calls Set.Leave.
func (r *Rendition) AwaitReady(ctx context.Context) (fanout.Start, error) {
	select {
	case <-r.ready:
	case <-ctx.Done():
		return fanout.Start{}, ctx.Err()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.startAtNextKey(), nil
}

// AwaitTracks waits until Head can name the tracks of the stream: browsers wait for a track that is
// announced and never comes. It waits for flvstream.TrackWait at most.
func (r *Rendition) AwaitTracks(ctx context.Context) error {
	if r.format != FLV {
		return nil
	}
	timer := time.NewTimer(flvstream.TrackWait * time.Millisecond) // the publisher may send nothing
	defer timer.Stop()
	select {
	case <-r.facts.Known():
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// startAtNextKey returns a start at the next keyframe. mu is held.
func (r *Rendition) startAtNextKey() fanout.Start {
	return startAt(
		r.cursor(broadcast.FromNextKey()))
}

func startAt(c *broadcast.Cursor) fanout.Start { return fanout.Start{Cursor: c, Lag: c.Lag()} }

// keyAge returns the age of the newest keyframe at which viewers can start, or 0 if they begin
// without one. mu is held.
func (r *Rendition) keyAge() time.Duration {
	c := r.source()
	defer c.Close()
	return c.Lag().Time
}

// cursor returns a new viewer's place in the ring: at the newest keyframe, unless opts say
// otherwise. As long as nothing has been published that a viewer cannot start after, it is at the
// head, so that the first viewers miss nothing. mu is held.
func (r *Rendition) cursor(opts ...broadcast.CursorOption) *broadcast.Cursor {
	lag, batch := r.cfg.Lag, batchBytes
	if lag.Bytes > 0 {
		// Frames taken and not yet sent count as lag.
		batch = int(min(batchBytes, max(lag.Bytes/4, 4<<10)))
	}
	if r.drops() { // a viewer that is disconnected for its lag is not moved first
		lag = broadcast.Lag{}
	}
	return r.newCursor(lag, append(opts, broadcast.BatchBytes(batch))...)
}

// source returns a cursor for a conversion or a FragmentReader. It may be as far behind as is kept.
// mu is held.
func (r *Rendition) source(opts ...broadcast.CursorOption) *broadcast.Cursor {
	return r.newCursor(broadcast.Lag{}, opts...)
}

func (r *Rendition) newCursor(limits broadcast.Lag,
	opts ...broadcast.CursorOption) *broadcast.Cursor {
	opts = append(opts,
		broadcast.MaxLagBytes(limits.Bytes), broadcast.MaxLagFrames(limits.Frames),
		broadcast.MaxLagTime(limits.Time))
	if r.format == Raw || r.format != MP4 && !r.begun {
		opts = append(opts, broadcast.FromHead())
	}
	return r.ring.Cursor(opts...)
}

// drops reports whether a viewer that is too far behind is disconnected. Frames can be left out of
// FLV and RTMP. Bytes of an unknown format have no place at which to continue, and after a gap an
// MP4 player continues with the audio at once but waits with the video.
func (r *Rendition) drops() bool { return r.format == Raw || r.format == MP4 || r.cfg.Drop }

// startIsKept reports whether viewers can start at a keyframe that is kept.
func (r *Rendition) startIsKept() bool { return r.ring.Stats().Start }
