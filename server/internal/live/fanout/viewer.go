package fanout

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/broadcast"
	"github.com/millrace-io/millrace/server/internal/lock"
)

// MaxReplies limits the bytes that wait to be sent to a viewer in addition to the stream: a hundred
// replies.
const MaxReplies = 16 << 10

// A Viewer is one response, which a Fanout writes: [Fanout.NewViewer].
//
// Append, SetChunked and SetEnd are for the time before the viewer is served, Reply is for the time
// after. Any goroutine may call the other methods at any time, but SetPaused not during Start.
//
// At any moment one goroutine serves the viewer: the loop's while the viewer is healthy, the
// viewer's own otherwise. This goroutine alone uses out, writes to the connection, and takes from
// the cursor.
type Viewer struct {
	src     *source
	loop    *loop // nil until the viewer is served
	session Session
	conn    Conn
	remote  string
	peer    bool

	cursor *broadcast.Cursor
	news   *broadcast.Watcher // signals new frames; nil with pathWritev
	// Signals replies, a pause, and the end of the viewer; nil with pathWritev.
	nudged chan struct{}

	out      response
	more     bool // the next take has something to give at once
	began    bool // frames were taken
	finished bool
	sent     atomic.Int64 // bytes of the response
	written  tally        // of the write that is under way, if it may wait
	missed   broadcast.Missed
	lag      lagMeter

	reason atomic.Int32 // a Reason
	paused atomic.Bool  // the client wants no frames at present
	held   bool         // take gave nothing because of that

	// Also guards changes of cursor and lag.start, and reads of these by other goroutines.
	mu      lock.Mutex
	replies millrace.Chain // are sent before the next batch
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

// begin sets the start of v. It takes ownership of the cursor.
func (v *Viewer) begin(s Start) {
	v.cursor, v.lag.start = s.Cursor, s.Lag
	v.lag.showsAt(s.Age)
}

// Append appends a copy of p to the bytes that v sends before the stream. After SetChunked it is
// one chunk.
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

// SetChunked makes v send the bytes of later calls of Append, and the stream, in the chunks of
// HTTP/1.1.
func (v *Viewer) SetChunked() { v.out.chunks.on = true }

// SetEnd makes v send c after a proper end of the stream. It takes ownership of c.
func (v *Viewer) SetEnd(c *millrace.Chain) { v.out.ending.Merge(c) }

// SetPaused makes v take no frames, or take them again from Session.Restart on.
func (v *Viewer) SetPaused(paused bool) {
	v.paused.Store(paused)
	if v.loop != nil {
		v.loop.nudge(v)
	}
}

// Reply sends p before the next batch of the stream, and in the same chunk: it is for viewers
// without SetChunked. It borrows p. It returns false if more than MaxReplies would wait.
func (v *Viewer) Reply(p []byte) bool {
	v.mu.Lock()
	room := v.replies.Len()+len(p) <= MaxReplies
	if room && !v.hasEnded() {
		v.replies.AppendCopy(p)
	}
	v.mu.Unlock()
	if room {
		v.loop.nudge(v)
	}
	return room
}

// takeReplies moves the replies to pending. The goroutine that serves v calls it.
func (v *Viewer) takeReplies() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.out.pending.Merge(&v.replies)
}

// Reason returns why v has ended, or Connected.
func (v *Viewer) Reason() Reason { return Reason(v.reason.Load()) }

func (v *Viewer) hasEnded() bool { return v.Reason() != Connected }

// End disconnects v, unless it has ended before. It does not wait. The next write to the connection
// fails, and then the goroutine that serves v calls finish.
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

// signal wakes the goroutine of v if it waits for frames.
func (v *Viewer) signal() {
	select {
	case v.nudged <- struct{}{}:
	default:
	}
}

// finish ends v if it has not ended yet, and releases everything that v holds. The goroutine that
// serves v calls it last.
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
	v.src.Counters.leave(v.conn.path(), why)
	v.session.Ended(why, v.sent.Load(), v.missed)
}

// abandon is finish after a panic. It leaves pending to the garbage collector, because the state of
// pending is unknown.
func (v *Viewer) abandon() {
	defer func() {
		// So that other viewers of a failed loop are abandoned as well.
		if cause := recover(); cause != nil {
			v.src.Log.Error("abandoning a viewer failed", "viewer", v.remote, "cause",
				fmt.Sprint(cause))
		}
	}()
	v.out.pending = millrace.Chain{}
	v.finish()
}

// fallBehind notes that v is over its allowance. It returns false if that was known.
func (v *Viewer) fallBehind(why Reason) bool {
	if !v.lag.fallBehind() {
		return false
	}
	v.src.Counters.behind[why].Add(1)
	return true
}

// inspect ends v if it has stalled, or if Config.Drop is set and v exceeds its allowance. Another
// goroutine serves v. at is the present. loop.mu is held.
func (v *Viewer) inspect(at int64) LagReport {
	if !v.lag.writing.Load() {
		return LagReport{} // it waits for frames
	}
	v.mu.Lock()
	lag := v.behindBy(at)
	why := v.lag.exceeds(v.src.Allowance, lag)
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
	if v.lag.stalledFor(at) > v.src.Stall {
		v.End(Stalled)
	}
	v.lag.stand(lag.Time)
	report := LagReport{Most: lag.Time}
	if v.lag.behind.Load() {
		report.Behind = 1
	}
	return report
}

// behindBy returns the lag of v: the batch that is being written, and all frames after it. v.mu is
// held.
func (v *Viewer) behindBy(at int64) broadcast.Lag { return v.lag.add(v.cursor.Lag(), at) }

// Path returns the way to the connection: a key of Stats.Paths.
func (v *Viewer) Path() string { return v.conn.path().String() }

// Sent returns how many bytes of the response the connection has taken.
func (v *Viewer) Sent() int64 { return v.sent.Load() }

// Batch returns the size of the last batch that v took from the ring, in bytes.
func (v *Viewer) Batch() int64 { return v.lag.bytes.Load() }

// WritingFor returns the duration of the present write, if it is one that may wait. Otherwise it
// returns false.
func (v *Viewer) WritingFor() (time.Duration, bool) {
	if !v.lag.writing.Load() {
		return 0, false
	}
	return time.Duration(now() - v.lag.takenAt.Load()), true
}

// Lag returns the age of the batch that is being written by a write that may wait. Otherwise it
// returns 0.
func (v *Viewer) Lag() time.Duration {
	if !v.lag.writing.Load() {
		return 0
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.behindBy(now()).Time
}

// BehindLive returns how far the player is behind the publisher.
func (v *Viewer) BehindLive() time.Duration { return v.lag.behindLive() }
