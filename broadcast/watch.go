package broadcast

import "sync"

// A Watcher is notified of new frames through a channel. It suits a goroutine that serves one or
// more cursors and may wait for other events as well.
type Watcher struct {
	// C receives a signal at each announcement (see [Latency]) and when the ring is closed. It has
	// room for one signal. If an announcement is made before the last signal was received, no
	// second signal is sent. C is never closed.
	C <-chan struct{}

	c     chan struct{}
	ring  *Ring
	index int // index in ring.watchers.list; stopped after Stop
}

// stopped is the index of a Watcher that is not on a list.
const stopped = -1

// watchers are the Watchers of a ring. They have their own mutex, because each goroutine that is
// woken will lock the ring's mutex.
type watchers struct {
	mu   sync.Mutex
	list []*Watcher // each Watcher at its index
}

// signal wakes the goroutine of each watcher. The caller must not hold Ring.mu.
func (s *watchers) signal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.list {
		w.signal()
	}
}

func (w *Watcher) signal() {
	select {
	case w.c <- struct{}{}:
	default: // the last signal has not been received yet
	}
}

// Watch returns a new Watcher. Its owner ends it with Stop. Check the cursors once before the first
// wait, because frames that were announced earlier are not announced again. If the ring is closed,
// C has a signal at once.
func (r *Ring) Watch() *Watcher {
	ch := make(chan struct{}, 1)
	w := &Watcher{C: ch, c: ch, ring: r}
	s := &r.watchers
	s.mu.Lock()
	w.index = len(s.list)
	s.list = append(s.list, w)
	s.mu.Unlock()
	if r.isClosed() { // only now that the Watcher is on the list, so that it does not miss Close
		w.signal()
	}
	return w
}

// Stop ends the signals. A signal that was sent before may still be in C. Stop may be called from
// any goroutine, and more than once.
func (w *Watcher) Stop() {
	s := &w.ring.watchers
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.index == stopped {
		return
	}
	last := len(s.list) - 1
	s.list[w.index] = s.list[last]
	s.list[w.index].index = w.index
	s.list[last] = nil
	s.list = s.list[:last]
	w.index = stopped
}

// announceSoon notes a new frame, and reports whether the caller must signal the watchers now.
// Otherwise the timer signals them later. r.mu is held.
func (r *Ring) announceSoon(now int64) bool {
	if r.opts.latency == 0 {
		return true
	}
	if r.due == 0 {
		r.due = now + int64(r.opts.latency)
		r.timer.Reset(r.opts.latency)
	}
	return false
}

// announce reports whether there are frames that were not announced, and stops the timer. r.mu is
// held.
func (r *Ring) announce() bool {
	if r.due == 0 {
		return false
	}
	r.due = 0
	r.timer.Stop()
	return true
}

// Flush announces at once the frames whose announcement is delayed by [Latency]. The publisher
// calls it when it will publish nothing for a while.
func (r *Ring) Flush() {
	r.mu.Lock()
	waiting := r.announce()
	r.mu.Unlock()
	if waiting {
		r.watchers.signal()
	}
}

// expire runs when the timer fires, and announces the frames that are due.
func (r *Ring) expire() {
	r.mu.Lock()
	// The frames may not be due. Since the timer fired, the ring may have been flushed or closed,
	// and the timer may have been set again.
	late := r.due != 0 && r.now() >= r.due && r.announce()
	r.mu.Unlock()
	if late {
		r.watchers.signal()
	}
}
