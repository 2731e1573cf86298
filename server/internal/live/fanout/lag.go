package fanout

import (
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace/broadcast"
)

// A LagReport sums up the lag of viewers.
type LagReport struct {
	Blocked int // viewers that a write waits for
	// Viewers that have exceeded their allowance, and have not caught up since.
	Behind int
	Most   time.Duration // the greatest lag
	Live   time.Duration // the greatest distance between a player and its publisher
}

// Add adds other to l.
func (l *LagReport) Add(other LagReport) {
	l.Blocked += other.Blocked
	l.Behind += other.Behind
	l.Most = max(l.Most, other.Most)
	l.Live = max(l.Live, other.Live)
}

// A lagMeter measures how far a viewer is behind. The goroutine that has the viewer writes it, and
// any goroutine reads it, except for start and warned.
type lagMeter struct {
	// The batch that is being written.
	writing  atomic.Bool  // a write that may wait is under way
	progress atomic.Int64 // when the connection last took something; see now
	takenAt  atomic.Int64 // when the write began
	frames   atomic.Int64 // of the batch, when it was taken
	bytes    atomic.Int64

	start   broadcast.Lag // how far behind the viewer began: by up to a GOP. Guarded by Viewer.mu
	arrived atomic.Bool   // it has caught up since then
	behind  atomic.Bool   // it was over its allowance, and has not caught up since
	warned  bool          // that was logged. Guarded by loop.mu

	// live is the age of the frame that the player shows, in ns since the frame left the publisher,
	// if the player has played everything at normal speed. A player that skips frames is closer.
	live atomic.Int64
}

// take notes a batch that was taken from the ring.
func (l *lagMeter) take(frames, bytes int) {
	l.frames.Store(int64(frames))
	l.bytes.Store(int64(bytes))
}

// startWrite notes the start of a write that may wait.
func (l *lagMeter) startWrite() {
	at := now()
	l.takenAt.Store(at)
	l.progress.Store(at)
	l.writing.Store(true)
}

// catchUp notes that the viewer has everything.
func (l *lagMeter) catchUp() {
	l.arrived.Store(true)
	l.keepUp()
}

// keepUp notes that a viewer that has caught up before has everything again.
func (l *lagMeter) keepUp() {
	if l.behind.Load() {
		l.behind.Store(false)
	}
}

// fallBehind notes that the viewer is over its allowance. It returns false if that was known.
func (l *lagMeter) fallBehind() bool { return l.behind.CompareAndSwap(false, true) }

// add returns rest, the lag in the ring, plus the batch that is being written. at is the present.
func (l *lagMeter) add(rest broadcast.Lag, at int64) broadcast.Lag {
	rest.Frames += int(l.frames.Load())
	rest.Bytes += l.bytes.Load()
	if rest.Frames > 0 {
		// Everything that it lacks was published then or later.
		rest.Time = time.Duration(at - l.takenAt.Load())
	}
	return rest
}

// exceeds returns which allowance a lag exceeds, or Connected. The allowance counts from where the
// viewer began until it has caught up. Viewer.mu is held.
func (l *lagMeter) exceeds(allowed, lag broadcast.Lag) Reason {
	if !l.arrived.Load() {
		lag.Bytes -= l.start.Bytes
		lag.Frames -= l.start.Frames
		lag.Time -= l.start.Time
	}
	switch {
	case allowed.Bytes > 0 && lag.Bytes > allowed.Bytes:
		return LagBytes
	case allowed.Frames > 0 && lag.Frames > allowed.Frames:
		return LagFrames
	case allowed.Time > 0 && lag.Time > allowed.Time:
		return LagTime
	}
	return Connected
}

// stalledFor returns how long the connection has taken nothing. at is the present.
func (l *lagMeter) stalledFor(
	at int64) time.Duration {
	return time.Duration(at - l.progress.Load())
}

// showsAt notes how old the frames are that the player shows from now on.
func (l *lagMeter) showsAt(age time.Duration) { l.live.Store(int64(age)) }

// stand notes that the player has paused because of a lag.
func (l *lagMeter) stand(lag time.Duration) {
	if int64(lag) > l.live.Load() {
		l.live.Store(int64(lag))
	}
}

// behindLive returns how far the player is behind the publisher.
func (l *lagMeter) behindLive() time.Duration { return time.Duration(l.live.Load()) }

// start is the origin of now.
var start = time.Now()

// now returns the monotonic time in nanoseconds.
func now() int64 { return int64(time.Since(start)) }
