package fanout

import (
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace/broadcast"
)

// A LagReport summarizes the lag of viewers.
type LagReport struct {
	Blocked int // viewers with a blocked write
	// Viewers that exceeded Config.Allowance and have not caught up since.
	Behind int
	Most   time.Duration // the largest lag
	Live   time.Duration // how far the slowest player is behind its publisher
}

// Add combines other with l.
func (l *LagReport) Add(other LagReport) {
	l.Blocked += other.Blocked
	l.Behind += other.Behind
	l.Most = max(l.Most, other.Most)
	l.Live = max(l.Live, other.Live)
}

// A lagMeter measures the lag of a viewer. Only the goroutine that serves the viewer changes it.
// Any goroutine may read the atomic fields.
type lagMeter struct {
	// The batch that is being written.
	writing  atomic.Bool  // a blocking write is in progress
	progress atomic.Int64 // when the connection last accepted bytes; see nanotime
	takenAt  atomic.Int64 // when the write began; see nanotime
	frames   atomic.Int64 // frames of the whole batch
	bytes    atomic.Int64

	start   broadcast.Lag // lag of the viewer at its start; guarded by Viewer.mu
	arrived atomic.Bool   // the viewer has caught up since its start
	behind  atomic.Bool   // the viewer exceeded its allowance and has not caught up since
	warned  bool          // a warning was logged; guarded by loop.mu

	// The age in ns of the frame that the player shows, if it plays everything at normal speed. A
	// player that skips frames shows newer ones.
	live atomic.Int64
}

func (l *lagMeter) take(frames, bytes int) {
	l.frames.Store(int64(frames))
	l.bytes.Store(int64(bytes))
}

func (l *lagMeter) startWrite() {
	now := nanotime()
	l.takenAt.Store(now)
	l.progress.Store(now)
	l.writing.Store(true)
}

func (l *lagMeter) catchUp() {
	l.arrived.Store(true)
	l.keepUp()
}

func (l *lagMeter) keepUp() {
	if l.behind.Load() {
		l.behind.Store(false)
	}
}

// fallBehind records that the viewer exceeds a limit of Config.Allowance. It returns false if this
// was already recorded.
func (l *lagMeter) fallBehind() bool { return l.behind.CompareAndSwap(false, true) }

// total returns the lag of a viewer: its lag in the ring, ringLag, plus the batch that is being
// written. If this lag has at least one frame, Lag.Time is the time since the write began.
func (l *lagMeter) total(ringLag broadcast.Lag, now int64) broadcast.Lag {
	ringLag.Frames += int(l.frames.Load())
	ringLag.Bytes += l.bytes.Load()
	if ringLag.Frames > 0 {
		ringLag.Time = time.Duration(now - l.takenAt.Load())
	}
	return ringLag
}

// exceededLimit compares the lag of a viewer with the limits in allowance. It returns the Reason
// for the first limit that is exceeded, or Connected if there is none. Until the viewer has caught
// up for the first time, the lag with which the viewer started does not count. The caller must hold
// Viewer.mu.
func (l *lagMeter) exceededLimit(allowance, lag broadcast.Lag) Reason {
	if !l.arrived.Load() {
		lag.Bytes -= l.start.Bytes
		lag.Frames -= l.start.Frames
		lag.Time -= l.start.Time
	}
	switch {
	case allowance.Bytes > 0 && lag.Bytes > allowance.Bytes:
		return LagBytes
	case allowance.Frames > 0 && lag.Frames > allowance.Frames:
		return LagFrames
	case allowance.Time > 0 && lag.Time > allowance.Time:
		return LagTime
	}
	return Connected
}

func (l *lagMeter) stalledFor(now int64) time.Duration {
	return time.Duration(now - l.progress.Load())
}

func (l *lagMeter) setLive(age time.Duration) { l.live.Store(int64(age)) }

// raiseLive replaces the recorded age of the frame that the player shows, if the new age is
// greater. A greater age means that the player has run out of frames.
func (l *lagMeter) raiseLive(age time.Duration) {
	if int64(age) > l.live.Load() {
		l.live.Store(int64(age))
	}
}

func (l *lagMeter) behindLive() time.Duration { return time.Duration(l.live.Load()) }

var start = time.Now()

// nanotime returns the nanoseconds since start, by the monotonic clock.
func nanotime() int64 { return int64(time.Since(start)) }
