// Package fanout writes live streams to their viewers. No other package does.
//
//	broadcast.Ring ─▶ Fanout ─▶ loop ─▶ Viewer ─▶ Conn
//
// A [Fanout] writes the frames of one ring. Each of its loops is one goroutine that serves many
// viewers (loop.go). A healthy viewer has a plain TCP connection that takes every frame at once.
// Such a viewer costs one writev call a round, which does not block (socket_linux.go); waking a
// goroutine for it would cost a quarter more. Every other viewer has its own goroutine: over TCP
// until it has caught up, over TLS and HTTP/2 to its end.
//
// All writes start in write.go. chunked.go frames writes for HTTP/1.1. lag.go measures a viewer's
// lag, and [Config] limits it.
//
// The package does not know who a viewer is: it asks the viewer's [Session].
package fanout

import (
	"runtime"

	"github.com/millrace-io/millrace/broadcast"
	"github.com/millrace-io/millrace/server/internal/lock"
)

// loopViewers is how many viewers one loop has before a second one starts. Writing to 512 takes
// about 4 ms.
const loopViewers = 512

// A Fanout writes the frames of a ring to its viewers.
//
// Locks are taken in this order: Fanout.mu, loop.mu, and then either Viewer.mu or a lock inside a
// method of Session. A loop holds loop.mu while it writes to its healthy viewers. No lock is held
// while Session.Ended is called, or while something is logged, or while a write waits. Viewer.End
// takes no lock of this package but that of a ResponseConn.
type Fanout struct {
	src source

	mu    lock.Mutex
	loops []*loop
}

// New returns a Fanout that writes the frames of ring. The caller releases nothing.
func New(ring *broadcast.Ring, cfg Config) *Fanout {
	return &Fanout{src: source{Config: cfg, ring: ring}}
}

// Close closes the ring. The viewers get the rest of it, and end for the given reason.
func (f *Fanout) Close(why Reason) {
	f.src.end.Store(int32(why))
	_ = f.src.ring.Close()
}

// Reason returns the reason that was given to Close, or Connected.
func (f *Fanout) Reason() Reason { return f.src.reason() }

// NewViewer returns a viewer for Start or Serve. It takes ownership of the cursor and the Conn.
func (f *Fanout) NewViewer(cfg ViewerConfig) *Viewer { return newViewer(&f.src, cfg) }

// Start serves v, and returns at once. It calls read in a goroutine. read reads from the connection
// until the client hangs up; without frames to write, only a read notices that.
func (f *Fanout) Start(v *Viewer, read func()) {
	f.add(v)
	go v.loop.readInput(v, read)
	go v.loop.serve(v)
}

// Serve serves v until it has ended.
func (f *Fanout) Serve(v *Viewer) {
	f.add(v)
	v.loop.serve(v)
}

// add gives v to a loop. The caller starts serve.
func (f *Fanout) add(v *Viewer) {
	v.loop = f.pick()
	f.src.Counters.enter(v.conn.path())
	v.loop.add(v)
}

// pick returns the loop for a new viewer, and counts the viewer there. It is the loop with the
// fewest viewers, or a new one if each has loopViewers and there is a processor for another.
func (f *Fanout) pick() *loop {
	f.mu.Lock()
	defer f.mu.Unlock()
	var least *loop
	for _, l := range f.loops {
		if least == nil || l.viewers.Load() < least.viewers.Load() {
			least = l
		}
	}
	if least == nil || least.viewers.Load() >= loopViewers && len(f.loops) < runtime.GOMAXPROCS(0) {
		least = newLoop(&f.src)
		f.loops = append(f.loops, least)
	}
	least.viewers.Add(1)
	return least
}

// Lag sums up the lag of the viewers: Behind and Most as of the last inspection, Blocked and Live
// at present.
func (f *Fanout) Lag() (sum LagReport) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, l := range f.loops {
		sum.Add(l.report())
	}
	return sum
}
