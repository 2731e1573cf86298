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
	// batchBytes limits the bytes that a viewer takes from the ring at a time. A stalled viewer
	// keeps one batch in memory, in addition to the ring. A larger batch has little use, because
	// the kernel accepts less than 256 KiB at once.
	batchBytes = 256 << 10
	// minMP4Frames is the minimum number of fragments for which an MP4 rendition has room. This is
	// enough for 90 seconds of audio.
	minMP4Frames = 1 << 12
)

// A Rendition is a stream in one format. All viewers of this format share the Rendition.
type Rendition struct {
	*base
	format Format
	head   []byte // sent to each viewer before anything from the ring
	ring   *broadcast.Ring
	fanout *fanout.Fanout // writes from the ring to the viewers, and closes the ring

	// Set only for a rendition that is converted from the publisher's format.
	ready <-chan struct{} // closed when the conversion has caught up with the stream
	stop  func()          // ends the conversion

	viewers int                          // guarded by mu
	readers map[*FragmentReader]struct{} // guarded by mu
}

func newRendition(b *base, f Format, head []byte) *Rendition {
	frames := b.cfg.KeepFrames
	if f == MP4 {
		// MaxFrames also limits the number of pieces of memory in the ring. An MP4 fragment has one
		// piece for each of its frames, and two more.
		frames = max(minMP4Frames, 2*frames)
	}
	r := &Rendition{base: b, format: f, head: head, ring: broadcast.New(
		broadcast.MaxBytes(b.cfg.KeepBytes), broadcast.MaxFrames(frames),
		broadcast.Latency(b.cfg.Latency)), readers: make(map[*FragmentReader]struct{})}
	r.fanout = fanout.New(r.ring, fanout.Config{Log: b.log, Counters: &b.cfg.Counters.Fanout,
		Allowance: b.cfg.Lag,
		Drop:      r.dropsViewers(), Stall: b.cfg.Stall})
	return r
}

// Format returns the format of r.
func (r *Rendition) Format() Format { return r.format }

// Fanout returns the Fanout that writes to the viewers of r.
func (r *Rendition) Fanout() *fanout.Fanout { return r.fanout }

// Stats describes the frames that r keeps for late viewers.
func (r *Rendition) Stats() broadcast.Stats { return r.ring.Stats() }

// Evict drops kept frames that are older than age, and returns the number of bytes dropped. If
// dropNewest is false, Evict keeps the newest GOP, which new viewers need.
func (r *Rendition) Evict(age time.Duration, dropNewest bool) int64 {
	return r.ring.Evict(age, dropNewest)
}

// Head returns the bytes that a new viewer gets before any frame. An FLV header announces only the
// tracks that exist. But if toNode is true and the tracks are not known yet, it announces the same
// tracks as the publisher: the viewer is another node, which waits for the announced tracks itself.
func (r *Rendition) Head(toNode bool) []byte {
	tracks := r.facts.Tracks.Load()
	if r.format != FLV || tracks == 0 || toNode && !r.facts.AreKnown() {
		return r.head
	}
	head := bytes.Clone(r.head)
	head[4] = byte(tracks)
	return head
}

// StateTracks makes the metadata in a viewer's first FLV tags announce the tracks that exist.
// offset is the position of the first tag in batch.
func (r *Rendition) StateTracks(batch *millrace.Chain, offset int) {
	if tracks := r.facts.Tracks.Load(); r.format == FLV && tracks != 0 {
		flvstream.StateAll(r.memory, batch, offset, tracks)
	}
}

// AwaitReady returns the position of the next keyframe for a new viewer. The caller must use
// AwaitReady if Set.Join has returned no position. After an error, the caller must call Set.Leave.
//
// A new conversion first converts the frames that the stream has kept. AwaitReady waits until these
// frames are converted, so that the viewer does not start at an old keyframe.
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

// AwaitTracks waits until the tracks of the stream are known, at most for flvstream.TrackWait.
// Browsers would wait for an announced track even if it never came.
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

// startAtNextKey returns the position of the next keyframe. The caller must hold mu.
func (r *Rendition) startAtNextKey() fanout.Start {
	return startAt(r.viewerCursor(broadcast.FromNextKey()))
}

func startAt(c *broadcast.Cursor) fanout.Start { return fanout.Start{Cursor: c, Lag: c.Lag()} }

// keyAge returns the age of the newest keyframe at which viewers can start. If viewers begin
// without a keyframe, keyAge returns 0. The caller must hold mu.
func (r *Rendition) keyAge() time.Duration {
	c := r.sourceCursor()
	defer c.Close()
	return c.Lag().Time
}

// viewerCursor returns the position at which a new viewer begins in the ring. The caller must hold
// mu.
//   - Viewers of FLV, RTMP and MP4 begin at the newest keyframe, unless opts say otherwise.
//   - Viewers of FLV and RTMP begin with the next frame if no frame has been published yet.
//   - Viewers of Raw always begin with the next data that is published.
func (r *Rendition) viewerCursor(opts ...broadcast.CursorOption) *broadcast.Cursor {
	lag, batch := r.cfg.Lag, batchBytes
	if lag.Bytes > 0 {
		// A batch must be smaller than the allowed lag, because it counts as lag until it is sent.
		batch = int(min(batchBytes, max(lag.Bytes/4, 4<<10)))
	}
	if r.dropsViewers() { // the lag must disconnect the viewer, and must not move it to a keyframe first
		lag = broadcast.Lag{}
	}
	return r.newCursor(lag, append(opts, broadcast.BatchBytes(batch))...)
}

// sourceCursor returns a cursor for a conversion or a FragmentReader. Its lag is not limited, but
// it loses frames that the ring no longer keeps. The caller must hold mu.
func (r *Rendition) sourceCursor(opts ...broadcast.CursorOption) *broadcast.Cursor {
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

// dropsViewers reports whether a viewer is disconnected when it is too far behind. If dropsViewers
// returns false, the viewer continues at the newest keyframe instead.
//   - Viewers of FLV and RTMP continue, unless Config.Drop is set.
//   - Viewers of Raw are disconnected, because the server does not know where they could continue.
//   - Viewers of MP4 are disconnected. After a gap, their players would continue the audio at once,
//     but the video only later.
func (r *Rendition) dropsViewers() bool { return r.format == Raw || r.format == MP4 || r.cfg.Drop }

func (r *Rendition) startIsKept() bool { return r.ring.Stats().Start }
