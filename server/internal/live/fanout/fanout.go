// Package fanout writes live streams to their viewers. No other package writes to viewers.
//
//	broadcast.Ring ─▶ Fanout ─▶ loop ─▶ Viewer ─▶ Conn
//
// A [Fanout] writes the frames of one ring to many viewers. It has several loops. A loop is one
// goroutine that serves many viewers (loop.go).
//
// A viewer is healthy if it has a plain TCP connection that accepts every frame at once. The loop
// writes to its healthy viewers, with one writev call per batch of frames. This call does not block
// (socket_linux.go). Waking a separate goroutine for each healthy viewer would cost a quarter more.
//
// Every other viewer has its own goroutine, because a write to it may block. A viewer with a plain
// TCP connection has this goroutine until it has received all frames. A viewer over TLS or HTTP/2
// always has its own goroutine.
//
// All writes start in write.go. chunked.go divides them into chunks for HTTP/1.1. lag.go measures a
// viewer's lag, and [Config] limits it.
//
// The package does not know who a viewer is. For all that depends on the viewer's identity, it
// calls the viewer's [Session].
//
// A third of the code decides which goroutine writes to a viewer: loop.go and viewer.go.
package fanout

import (
	"runtime"
	"time"

	"github.com/millrace-io/millrace/broadcast"
	"github.com/millrace-io/millrace/server/internal/lock"
)

// loopViewers is the number of viewers that a loop should serve. If every loop has this number of
// viewers, a further loop is started. Writing to 512 viewers takes about 4 ms.
const loopViewers = 512

// A Fanout writes the frames of a ring to its viewers. The viewers are divided among loops. A loop
// writes directly to each healthy viewer: a viewer that has received every frame and can accept
// more at once. Each other viewer has a separate goroutine, because a write to this viewer may have
// to wait.
//
// Locks are taken in this order: Fanout.mu, loop.mu, and then either Viewer.mu or a lock that a
// method of Session takes. A loop holds loop.mu while it writes to its healthy viewers. No lock is
// held:
//   - while Session.Ended is called
//   - while something is logged
//   - while a write waits for the client
//
// Viewer.End takes no lock of this package except the lock of a ResponseConn.
type Fanout struct {
	src source

	mu    lock.Mutex
	loops []*loop
}

// New returns a Fanout that writes the frames of ring to the viewers that NewViewer returns. The
// Fanout need not be released.
func New(ring *broadcast.Ring, cfg Config) *Fanout {
	return &Fanout{src: source{Config: cfg, ring: ring}}
}

// Close closes the ring. The viewers receive the remaining frames, and are then disconnected for
// the given Reason.
func (f *Fanout) Close(reason Reason) {
	f.src.end.Store(int32(reason))
	_ = f.src.ring.Close()
}

// Reason returns the reason that was passed to Close. It returns Connected before Close is called.
func (f *Fanout) Reason() Reason { return f.src.reason() }

// NewViewer returns a viewer, which the caller must pass to Start or Serve. It takes ownership of
// the cursor and the Conn.
func (f *Fanout) NewViewer(cfg ViewerConfig) *Viewer { return newViewer(&f.src, cfg) }

// Start serves v, and returns at once. It calls readInput in a goroutine. readInput must read from
// the connection until the client hangs up. While there are no frames to write, only a read can
// detect that the client has hung up.
//
// pause is the time from one batch of v to the next, in addition to the ring's latency. Each value
// of pause has its own loops.
func (f *Fanout) Start(v *Viewer, pause time.Duration, readInput func()) {
	f.add(v, pause)
	go v.loop.readInput(v, readInput)
	go v.loop.serve(v)
}

// Serve serves v until it has ended. pause has the same meaning as in Start.
func (f *Fanout) Serve(v *Viewer, pause time.Duration) {
	f.add(v, pause)
	v.loop.serve(v)
}

// add chooses a loop for v, and stores the loop in v.loop. The caller must then call v.loop.serve.
func (f *Fanout) add(v *Viewer, pause time.Duration) {
	v.loop = f.pickLoop(pause)
	f.src.Counters.addViewer(v.conn.path())
	v.loop.add(v)
}

// pickLoop returns the loop for a new viewer, and adds 1 to the loop's number of viewers. Of the
// loops with the given pause, it is the one with the fewest viewers. If each of these loops has at
// least loopViewers viewers, and there are fewer of them than processors, pickLoop returns a new
// loop.
func (f *Fanout) pickLoop(pause time.Duration) *loop {
	f.mu.Lock()
	defer f.mu.Unlock()
	var least *loop
	loops := 0
	for _, l := range f.loops {
		if l.pause != pause {
			continue
		}
		loops++
		if least == nil || l.viewers.Load() < least.viewers.Load() {
			least = l
		}
	}
	if least == nil || least.viewers.Load() >= loopViewers && loops < runtime.GOMAXPROCS(0) {
		least = newLoop(&f.src, pause)
		f.loops = append(f.loops, least)
	}
	least.viewers.Add(1)
	return least
}

// Lag returns the combined lag of all viewers. Behind and Most may be up to 250 ms old.
func (f *Fanout) Lag() (sum LagReport) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, l := range f.loops {
		sum.Add(l.lagReport())
	}
	return sum
}
