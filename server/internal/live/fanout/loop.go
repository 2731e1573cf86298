package fanout

import (
	"fmt"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace/broadcast"
	"github.com/millrace-io/millrace/server/internal/lock"
)

// inspectEvery is the time between two checks of the viewers that have their own goroutines. It can
// be this long because the time limits of viewers are in seconds.
const inspectEvery = 250 * time.Millisecond

// A loop serves some of the viewers of a Fanout. Its goroutine runs while the loop has viewers.
//
// A viewer is healthy if it has received every frame and its socket accepts more. The loop's
// goroutine writes to all healthy viewers.
//
// Every other viewer is detached: it has its own goroutine (serve), because a write to it may
// block. A new viewer is detached at first. When a detached viewer with a plain socket has received
// every frame, it becomes healthy and its own goroutine ends.
//
// A blocked goroutine cannot check how far its viewer lags. The loop's goroutine therefore checks
// the detached viewers every inspectEvery.
type loop struct {
	src     *source
	pause   time.Duration // time from one round to the next; 0: a round for each signal of the ring
	viewers atomic.Int32  // number of viewers, healthy and detached
	wake    chan struct{} // signals that detached is no longer empty; has a buffer of one

	mu       lock.Mutex // held while healthy viewers are written to
	running  bool
	healthy  []*Viewer // viewers that the loop's goroutine writes to
	detached []*Viewer // viewers that have their own goroutines
	out      vector

	seen LagReport // result of the last inspection
}

func newLoop(src *source, pause time.Duration) *loop {
	return &loop{src: src, pause: pause, wake: make(chan struct{}, 1)}
}

// add adds v as a detached viewer. The caller must then call l.serve(v) in a separate goroutine.
func (l *loop) add(v *Viewer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.addDetached(v)
}

// addDetached adds v, and starts the loop's goroutine if necessary. The caller must hold l.mu.
func (l *loop) addDetached(v *Viewer) {
	l.detached = append(l.detached, v)
	switch {
	case !l.running:
		l.running = true
		go l.run(l.src.ring.Watch())
	case len(l.detached) == 1:
		select {
		case l.wake <- struct{}{}:
		default:
		}
	}
}

// run is the loop's goroutine. It ends when the loop has no viewers.
func (l *loop) run(news *broadcast.Watcher) {
	defer news.Stop()
	defer l.recoverLoop()
	tick := time.NewTimer(inspectEvery)
	defer tick.Stop()
	pause := time.NewTimer(l.pause)
	defer pause.Stop()
	signal := news.C // nil during a pause, in which news.C keeps one signal
	for ticking := true; ; {
		select {
		case <-signal:
			l.writeHealthy()
			if l.pause > 0 {
				signal = nil
				pause.Reset(l.pause)
			}
		case <-pause.C:
			signal = news.C
		case <-l.wake:
		case <-tick.C:
			ticking = false
			l.inspect()
		}
		detached, ended := l.checkViewers()
		if ended {
			return
		}
		if detached && !ticking {
			tick.Reset(inspectEvery)
			ticking = true
		}
	}
}

// checkViewers returns detached = true if l.detached contains any viewers. If the loop has no
// viewers at all, checkViewers sets l.running to false and returns ended = true. The loop's
// goroutine must then end.
func (l *loop) checkViewers() (detached, ended bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running = len(l.healthy)+len(l.detached) > 0; !l.running {
		l.seen = LagReport{}
	}
	return len(l.detached) > 0, !l.running
}

// writeHealthy writes the new frames to every viewer in l.healthy, without waiting. A viewer with a
// full socket gets its own goroutine.
func (l *loop) writeHealthy() {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.healthy
	stay, next := all[:0], 0
	defer func() { // also after a panic: each viewer must be in the list once, or not at all
		l.healthy = append(stay, all[next:]...)
		clear(all[len(l.healthy):])
	}()
	for _, v := range all {
		switch v.writeNow(&l.out) {
		case upToDate:
			stay = append(stay, v)
		case full:
			l.addDetached(v)
			go l.serve(v)
		case ended:
			go l.finish(v) // in a goroutine, because finish logs
		}
		next++
	}
	l.out.flush(l.src.Counters, pathWritev)
}

// wakeViewer must be called when v has a reply to send, or has been paused or resumed. If v has a
// goroutine that waits for frames, wakeViewer wakes that goroutine. If v is healthy, it has no
// goroutine. wakeViewer then moves v to l.detached and starts one.
func (l *loop) wakeViewer(v *Viewer) {
	v.signal()
	l.mu.Lock()
	defer l.mu.Unlock()
	if slices.Contains(l.healthy, v) { // otherwise the goroutine of v notices the change
		l.healthy = deleteViewer(l.healthy, v)
		l.addDetached(v)
		go l.serve(v)
	}
}

// serve is the goroutine of the detached viewer v. It ends when v ends or becomes healthy.
func (l *loop) serve(v *Viewer) {
	defer l.recoverViewer(v)
	for v.catchUp() {
		if v.conn.path() == pathWritev {
			if l.makeHealthy(v) {
				return
			}
			continue
		}
		v.await()
	}
	l.leave(v)
	v.finish()
}

// makeHealthy makes the detached viewer v healthy. It returns false if v has ended or its socket is
// full.
func (l *loop) makeHealthy(v *Viewer) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.out.flush(l.src.Counters, pathWritev)
	// v must first get the frames that the healthy viewers may already have.
	if v.writeNow(&l.out) != upToDate {
		return false
	}
	l.detached = deleteViewer(l.detached, v)
	l.healthy = append(l.healthy, v)
	return true
}

func (l *loop) leave(v *Viewer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.detached = deleteViewer(l.detached, v)
}

// finishHealthy removes v, which has ended, from l.healthy, and calls v.finish. If v is detached,
// finishHealthy does nothing, because the goroutine of v calls v.finish.
func (l *loop) finishHealthy(v *Viewer) {
	l.mu.Lock()
	found := slices.Contains(l.healthy, v)
	if found {
		l.healthy = deleteViewer(l.healthy, v)
	}
	l.mu.Unlock()
	if found {
		v.finish()
	}
}

// readInput calls the function read, which returns when the client of v has hung up. It then ends
// v.
func (l *loop) readInput(v *Viewer, read func()) {
	read()
	v.End(HungUp)
	v.conn.abort(false) // if v had ended before, its connection may still be open
	l.finishHealthy(v)
}

// finish releases a viewer that was removed from l.healthy. It runs in its own goroutine, because
// it logs, and the log may block.
func (l *loop) finish(v *Viewer) {
	defer l.recoverViewer(v)
	v.finish()
}

// inspect checks the lag of the detached viewers, and ends viewers that are too slow. It stores the
// combined lag in l.seen.
func (l *loop) inspect() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen = LagReport{}
	now := nanotime()
	for _, v := range l.detached {
		l.seen.Add(v.inspect(now))
	}
}

// lagReport returns the combined lag of the loop's viewers. A viewer that is another node does not
// contribute to LagReport.Live, because a node has no player.
func (l *loop) lagReport() LagReport {
	l.mu.Lock()
	defer l.mu.Unlock()
	seen := l.seen
	for _, list := range [][]*Viewer{l.healthy, l.detached} {
		for _, v := range list {
			if !v.peer {
				seen.Live = max(seen.Live, v.lag.behindLive())
			}
		}
	}
	for _, v := range l.detached {
		if v.lag.writing.Load() {
			seen.Blocked++
		}
	}
	return seen
}

// recoverLoop recovers from a panic of the loop's goroutine, so that the panic does not end the
// process. It disconnects the viewers of l. The next new viewer starts the loop's goroutine again.
func (l *loop) recoverLoop() {
	cause := recover()
	if cause == nil {
		return
	}
	defer l.src.Log.Error("fanout failed, its viewers are disconnected",
		"cause", fmt.Sprint(cause), "stack", string(debug.Stack()))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running = false
	for _, v := range l.detached {
		v.End(Failed)
	}
	for _, v := range l.healthy {
		go v.abandon() // in a goroutine, because abandon logs
	}
	l.healthy = nil
}

func (l *loop) recoverViewer(v *Viewer) {
	if cause := recover(); cause != nil {
		l.src.Log.Error("serving a viewer failed", "viewer", v.remote,
			"cause", fmt.Sprint(cause), "stack", string(debug.Stack()))
		l.leave(v)
		v.abandon()
	}
}

func deleteViewer(list []*Viewer, v *Viewer) []*Viewer {
	return slices.DeleteFunc(list, func(other *Viewer) bool { return other == v })
}
