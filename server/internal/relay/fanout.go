package relay

import (
	"fmt"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace/broadcast"
	"github.com/millrace-io/millrace/server/internal/lock"
)

// inspectEvery is how often the fanout looks at viewers that have goroutines of their own. Their time limits are in
// seconds.
const inspectEvery = 250 * time.Millisecond

// A fanout writes a rendition to its viewers.
//
// All writes start in this file, in writeNow and writePending, and go to a viewerConn.
//
// Its goroutine serves all healthy viewers. For each of them that is one system call that does not wait; waking a
// goroutine for it would cost a quarter more. A viewer whose socket is full, and a new viewer, gets a goroutine of its
// own (serve) until it has caught up. A viewer without a plain socket (TLS, HTTP/2) keeps its goroutine. The fanout's
// goroutine looks at these viewers from time to time, to see how far behind they are.
type fanout struct {
	rendition *rendition
	viewers   atomic.Int32  // that belong to this fanout
	wake      chan struct{} // has room for one signal: apart was empty, and is not

	mu      lock.Mutex // held while healthy viewers are written to
	running bool       // the goroutine is there
	healthy []*viewer  // written to by the goroutine
	apart   []*viewer  // written to by goroutines of their own
	out     vector

	seen lagReport // at the last inspection
}

// A lagReport says how viewers do, and above all those that are not healthy.
type lagReport struct {
	blocked int           // being written to by a call that waits
	behind  int           // over their allowance, and have not caught up since
	most    time.Duration // how far the last of them is behind
	live    time.Duration // of all viewers: how far the player of the last one is behind live
}

func (l *lagReport) add(other lagReport) {
	l.blocked += other.blocked
	l.behind += other.behind
	l.most = max(l.most, other.most)
	l.live = max(l.live, other.live)
}

func newFanout(r *rendition) *fanout {
	return &fanout{rendition: r, wake: make(chan struct{}, 1)}
}

// add serves v from now on. The caller starts serve.
func (f *fanout) add(v *viewer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.addApart(v)
}

// addApart adds v to apart, and has the goroutine look at it from now on. f.mu is held.
func (f *fanout) addApart(v *viewer) {
	f.apart = append(f.apart, v)
	switch {
	case !f.running:
		f.running = true
		go f.run(f.rendition.ring.Watch())
	case len(f.apart) == 1:
		select {
		case f.wake <- struct{}{}:
		default:
		}
	}
}

// run is the fanout's goroutine. It ends when there are no viewers.
func (f *fanout) run(news *broadcast.Watcher) {
	defer news.Stop()
	defer f.contain()
	tick := time.NewTimer(inspectEvery)
	defer tick.Stop()
	for ticking := true; ; {
		select {
		case <-news.C:
			f.round()
		case <-f.wake:
		case <-tick.C:
			ticking = false
			f.inspect()
		}
		apart, ended := f.rest()
		if ended {
			return
		}
		if apart && !ticking {
			tick.Reset(inspectEvery)
			ticking = true
		}
	}
}

// rest reports whether there are viewers apart, and ends the goroutine if there are no viewers at all.
func (f *fanout) rest() (apart, ended bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.running = len(f.healthy)+len(f.apart) > 0; !f.running {
		f.seen = lagReport{}
	}
	return len(f.apart) > 0, !f.running
}

// round writes what is new to every healthy viewer.
func (f *fanout) round() {
	f.mu.Lock()
	defer f.mu.Unlock()
	stay := f.healthy[:0]
	for _, v := range f.healthy {
		switch v.writeNow(&f.out) {
		case upToDate:
			stay = append(stay, v)
		case full:
			f.addApart(v)
			go f.serve(v)
		case ended:
			go f.finish(v) // which logs
		}
	}
	clear(f.healthy[len(stay):])
	f.healthy = stay
	f.out.flush(&f.rendition.stream.hub.counters, pathWritev)
}

// nudge wakes the goroutine that serves v: v has a reply to send, or has paused or resumed.
func (f *fanout) nudge(v *viewer) {
	v.signal()
	f.mu.Lock()
	defer f.mu.Unlock()
	if slices.Contains(f.healthy, v) { // otherwise a goroutine of its own looks before it rests
		f.healthy = without(f.healthy, v)
		f.addApart(v)
		go f.serve(v)
	}
}

// serve writes to v in a goroutine of v's own, until v has ended or is healthy.
func (f *fanout) serve(v *viewer) {
	defer f.containOne(v)
	for v.catchUp() {
		if v.conn.path() == pathWritev {
			if f.adopt(v) {
				return
			}
			continue
		}
		select {
		case <-v.news.C:
		case <-v.nudged:
		}
	}
	f.leave(v)
	v.finish()
}

// adopt makes v healthy, unless its socket has become full again.
func (f *fanout) adopt(v *viewer) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	defer f.out.flush(&f.rendition.stream.hub.counters, pathWritev)
	// What was announced before v is in the list has to be written here.
	if v.writeNow(&f.out) != upToDate {
		return false
	}
	if v.hasEnded() { // and remove would not have found it
		return false
	}
	f.apart = without(f.apart, v)
	f.healthy = append(f.healthy, v)
	return true
}

// A writeState is how a viewer stands after what was new was written to it.
type writeState int

const (
	upToDate writeState = iota
	full                // its socket takes no more
	ended
)

// writeNow writes what is new without waiting, a batch per system call.
func (v *viewer) writeNow(out *vector) writeState {
	for !v.hasEnded() {
		if v.sentAll() {
			if v.take() != nil {
				v.end(disconnectReason(v.rendition.reason.Load()))
				break
			}
		}
		if !v.sentAll() {
			before := v.pending.Len()
			isFull, err := v.conn.tryWrite(&v.chunks.line, &v.pending, out)
			v.noteSent(before - v.pending.Len())
			if err != nil {
				v.end(hungUp)
				break
			}
			if isFull {
				return full
			}
		}
		if !v.more {
			v.lag.keepUp()
			return upToDate
		}
	}
	return ended
}

// catchUp writes until v has everything, and waits as long as the connection does; inspect ends that when it is too
// long. It returns false when v has ended.
func (v *viewer) catchUp() bool {
	for !v.hasEnded() {
		if err := v.writePending(); err != nil {
			v.end(hungUp)
			break
		}
		if v.take() != nil {
			v.end(disconnectReason(v.rendition.reason.Load()))
			break
		}
		if v.sentAll() && !v.more {
			v.lag.catchUp()
			return true
		}
	}
	return false
}

// writePending writes all of pending. The first time it also sends the head of a response, so that a viewer of a stream
// in which nothing comes for a while knows that it is there.
func (v *viewer) writePending() error {
	if v.sentAll() && v.headSent {
		return nil
	}
	v.headSent = true
	v.lag.startWrite()
	defer v.lag.writing.Store(false)
	before := v.pending.Len()
	defer func() { v.noteSent(before - v.pending.Len()) }()
	defer v.written.flush(&v.rendition.stream.hub.counters, v.conn.path())
	return v.conn.write(&v.chunks.line, &v.pending, &v.written, &v.lag.progress)
}

// noteSent counts n bytes of the stream that have left.
func (v *viewer) noteSent(n int) {
	v.sent.Add(int64(n))
	v.account.Add(int64(n))
	if v.lease != nil {
		v.rendition.stream.hub.counters.toNodes.Add(int64(n))
	}
}

// leave removes v from apart.
func (f *fanout) leave(v *viewer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.apart = without(f.apart, v)
}

// remove finishes a viewer that has ended, if it is healthy. Otherwise its own goroutine does.
func (f *fanout) remove(v *viewer) {
	f.mu.Lock()
	found := slices.Contains(f.healthy, v)
	if found {
		f.healthy = without(f.healthy, v)
	}
	f.mu.Unlock()
	if found {
		v.finish()
	}
}

// finish finishes a viewer that is in no list, in a goroutine of its own: the log may block.
func (f *fanout) finish(v *viewer) {
	defer f.containOne(v)
	v.finish()
}

// inspect looks at the viewers that are apart.
func (f *fanout) inspect() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen = lagReport{}
	at := now()
	for _, v := range f.apart {
		f.seen.add(v.inspect(at))
	}
}

// report returns how the viewers do: the lag of those that are apart at the last inspection, how many are blocked now, and
// how far from live they are. Other nodes play nothing.
func (f *fanout) report() lagReport {
	f.mu.Lock()
	defer f.mu.Unlock()
	seen := f.seen
	for _, list := range [][]*viewer{f.healthy, f.apart} {
		for _, v := range list {
			if v.lease == nil {
				seen.live = max(seen.live, v.lag.behindLive())
			}
		}
	}
	for _, v := range f.apart {
		if v.lag.writing.Load() {
			seen.blocked++
		}
	}
	return seen
}

// contain keeps a mistake in here from taking other streams down: the viewers of this fanout are disconnected, and the
// next viewer finds it as new.
func (f *fanout) contain() {
	cause := recover()
	if cause == nil {
		return
	}
	defer f.rendition.stream.log.Error("fanout failed, its viewers are disconnected",
		"cause", fmt.Sprint(cause), "stack", string(debug.Stack()))
	f.mu.Lock()
	defer f.mu.Unlock()
	f.running = false
	for _, v := range f.apart {
		v.end(failed)
	}
	for _, v := range f.healthy {
		if v != nil && !slices.Contains(f.apart, v) { // or the round that failed has given it a goroutine
			go v.abandon() // which logs
		}
	}
	f.healthy = nil
}

// containOne is contain for a viewer's own goroutine.
func (f *fanout) containOne(v *viewer) {
	if cause := recover(); cause != nil {
		f.rendition.stream.log.Error("serving a viewer failed", "viewer", v.remote,
			"cause", fmt.Sprint(cause), "stack", string(debug.Stack()))
		f.leave(v)
		v.abandon()
	}
}

// without returns list without v.
func without(list []*viewer, v *viewer) []*viewer {
	return slices.DeleteFunc(list, func(other *viewer) bool { return other == v })
}
