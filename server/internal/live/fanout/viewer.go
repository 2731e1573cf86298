package fanout

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/broadcast"
	"github.com/millrace-io/millrace/server/internal/lock"
)

// MaxReplies is the maximum size of the queue of replies to a viewer, in bytes. It has room for a
// hundred usual replies.
const MaxReplies = 16 << 10

// A Viewer is one response that a Fanout writes. [Fanout.NewViewer] returns it.
//
// These rules apply to the methods:
//   - Append, SetChunked, SetWebSocket and SetEnd may be called only before the viewer is served.
//   - Reply may be called only after serving has begun.
//   - SetPaused may be called by any goroutine at any time, except during a call to Fanout.Start.
//   - All other methods may be called by any goroutine at any time.
//
// One goroutine at a time serves the viewer. While a viewer on a plain TCP connection keeps up with
// the stream, the goroutine of v.loop serves the viewer, together with many other viewers. At all
// other times, the viewer has its own goroutine. Only the goroutine that serves the viewer uses
// v.out, writes to the connection, and takes frames from the cursor.
type Viewer struct {
	src     *source
	loop    *loop // nil until the viewer is served
	session Session
	conn    Conn
	remote  string
	peer    bool

	cursor *broadcast.Cursor
	news   *broadcast.Watcher // signals new frames; nil with pathWritev
	// Wakes the goroutine that serves the viewer when there is a reply to send, when SetPaused was
	// called, or when the viewer has ended. It is nil for a plain socket on Linux (pathWritev).
	nudged chan struct{}

	out      response
	more     bool // takeBatch must be called again without waiting
	began    bool // frames were taken
	finished bool
	sent     atomic.Int64 // bytes of the response that were sent
	written  tally        // counts of the current write
	missed   broadcast.Missed
	lag      lagMeter

	reason    atomic.Int32 // holds a Reason
	paused    atomic.Bool  // the client wants no frames at present
	wasPaused bool         // takeBatch has returned no frames because the client has paused

	// mu guards replies, cursor and lag.start. The goroutine that serves the viewer may read cursor
	// and lag.start without mu, but holds mu to replace them.
	mu      lock.Mutex
	replies millrace.Chain // to be sent before the next batch
}

func newViewer(src *source, cfg ViewerConfig) *Viewer {
	v := &Viewer{src: src, session: cfg.Session, conn: cfg.Conn, remote: cfg.Remote, peer: cfg.Peer}
	v.begin(cfg.Start)
	if v.conn.path() != pathWritev {
		v.news = src.ring.Watch()
		v.nudged = make(chan struct{}, 1)
	}
	return v
}

// begin sets the position in the ring at which v begins. It takes ownership of s.Cursor.
func (v *Viewer) begin(s Start) {
	v.cursor, v.lag.start = s.Cursor, s.Lag
	v.lag.setLive(s.Age)
}

// Append appends a copy of p to the bytes that v sends before the stream. After SetChunked, p
// becomes one chunk.
func (v *Viewer) Append(p []byte) {
	if len(p) == 0 {
		return
	}
	out := &v.out
	out.chunks.begin(len(p))
	out.pending.AppendCopy(out.chunks.line)
	out.pending.AppendCopy(p)
	out.chunks.line = nil
}

// SetChunked makes v send everything from now on in HTTP/1.1 chunks.
func (v *Viewer) SetChunked() { v.out.chunks.framing = httpChunks }

// SetWebSocket makes v send everything from now on in binary WebSocket messages, apart from
// replies. Replies are control frames.
func (v *Viewer) SetWebSocket() { v.out.chunks.framing = webSocket }

// SetEnd makes v send c after the last frame, if the stream ends properly; see Reason.Complete. It
// takes ownership of c.
func (v *Viewer) SetEnd(c *millrace.Chain) { v.out.ending.Merge(c) }

// SetPaused pauses or resumes v. After a pause, v continues where Session.Restart says.
func (v *Viewer) SetPaused(paused bool) {
	v.paused.Store(paused)
	if v.loop != nil {
		v.loop.wakeViewer(v)
	}
}

// Reply sends a copy of p before the next batch of the stream. It returns false, and sends nothing,
// if the queue of replies would exceed MaxReplies bytes.
//
// Reply must not be called after SetChunked, because p would become part of a chunk.
func (v *Viewer) Reply(p []byte) bool {
	v.mu.Lock()
	room := v.replies.Len()+len(p) <= MaxReplies
	if room && !v.hasEnded() {
		v.replies.AppendCopy(p)
	}
	v.mu.Unlock()
	if room {
		v.loop.wakeViewer(v)
	}
	return room
}

// takeReplies moves the queued replies to v.out.pending. Only the goroutine that serves v calls it.
func (v *Viewer) takeReplies() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.out.pending.Merge(&v.replies)
}

// Reason returns the reason why v has ended, or Connected.
func (v *Viewer) Reason() Reason { return Reason(v.reason.Load()) }

func (v *Viewer) hasEnded() bool { return v.Reason() != Connected }

// End disconnects v, unless v has already ended. It does not wait. The next write to the connection
// then fails, and the goroutine that serves v calls finish.
func (v *Viewer) End(why Reason) {
	if !v.reason.CompareAndSwap(int32(Connected), int32(why)) {
		return
	}
	if why.Complete() {
		v.conn.finish()
	} else {
		v.conn.abort(why.byServer())
	}
	v.signal()
}

func (v *Viewer) signal() {
	select {
	case v.nudged <- struct{}{}:
	default:
	}
}

// finish ends v, and releases everything that v holds. The goroutine that serves v calls it last.
func (v *Viewer) finish() {
	if v.finished {
		return
	}
	v.finished = true
	v.End(Failed)
	v.takeReplies()
	v.out.release()
	v.cursor.Close()
	if v.news != nil {
		v.news.Stop()
	}
	v.loop.viewers.Add(-1)
	why := v.Reason()
	v.src.Counters.removeViewer(v.conn.path(), why)
	v.session.Ended(why, v.sent.Load(), v.missed)
}

// abandon is called instead of finish after a panic. It leaves v.out.pending to the garbage
// collector, because that Chain may be in an inconsistent state.
func (v *Viewer) abandon() {
	defer func() {
		// finish may panic too, because v may be inconsistent.
		if cause := recover(); cause != nil {
			v.src.Log.Error("abandoning a viewer failed", "viewer", v.remote, "cause",
				fmt.Sprint(cause))
		}
	}()
	v.out.pending = millrace.Chain{}
	v.finish()
}

// fallBehind counts v as a viewer that is too far behind, under the given Reason. It returns false
// if v is already counted.
func (v *Viewer) fallBehind(reason Reason) bool {
	if !v.lag.fallBehind() {
		return false
	}
	v.src.Counters.behind[reason].Add(1)
	return true
}

// inspect returns the lag of a detached viewer. It ends v if the connection has accepted nothing
// for Config.Stall, or if Config.Drop is set and the lag exceeds Config.Allowance. The caller must
// hold loop.mu.
func (v *Viewer) inspect(now int64) LagReport {
	if !v.lag.writing.Load() {
		return LagReport{} // v waits for frames
	}
	v.mu.Lock()
	lag := v.behindBy(now)
	why := v.lag.exceededLimit(v.src.Allowance, lag)
	v.mu.Unlock()
	if why != Connected {
		if v.fallBehind(why) && !v.lag.warned {
			v.lag.warned = true
			go v.src.Log.Warn("viewer is too far behind", "viewer", v.remote, "reason",
				why.String(),
				"bytes", lag.Bytes, "frames", lag.Frames, "time", lag.Time.Round(time.Millisecond))
		}
		if v.src.Drop {
			v.End(why)
		}
	}
	if v.lag.stalledFor(now) > v.src.Stall {
		v.End(Stalled)
	}
	v.lag.raiseLive(lag.Time)
	report := LagReport{Most: lag.Time}
	if v.lag.behind.Load() {
		report.Behind = 1
	}
	return report
}

// behindBy returns the lag of v, which consists of the batch that is being written and all later
// frames. The caller must hold v.mu.
func (v *Viewer) behindBy(now int64) broadcast.Lag { return v.lag.total(v.cursor.Lag(), now) }

// Path returns the name of the call that writes to the viewer: "writev", "write" or
// "responsewriter". These names are also the keys of Stats.Paths.
func (v *Viewer) Path() string { return v.conn.path().String() }

// Sent returns the number of bytes of the response that the connection has accepted.
func (v *Viewer) Sent() int64 { return v.sent.Load() }

// Batch returns the size of the last batch that v took from the ring, in bytes.
func (v *Viewer) Batch() int64 { return v.lag.bytes.Load() }

// WritingFor returns the duration of the current blocking write to the connection so far. It
// returns false if there is none.
func (v *Viewer) WritingFor() (time.Duration, bool) {
	if !v.lag.writing.Load() {
		return 0, false
	}
	return time.Duration(nanotime() - v.lag.takenAt.Load()), true
}

// Lag returns the time since the current blocking write began (see WritingFor). It returns 0 if
// there is none, or if neither the write nor the ring has frames for v.
func (v *Viewer) Lag() time.Duration {
	if !v.lag.writing.Load() {
		return 0
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.behindBy(nanotime()).Time
}

// BehindLive returns how far the player is behind the publisher.
func (v *Viewer) BehindLive() time.Duration { return v.lag.behindLive() }
