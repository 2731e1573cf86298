package broadcast

import "sync"

// A Watcher signals new frames through a channel. Use it in a goroutine that serves several cursors
// or also waits for other events.
type Watcher struct {
	// C receives a signal when frames have been published and when the ring is closed. With the
	// option [Latency], the signal comes later than the frames. C has room for one signal, and
	// while it is full, further signals are dropped. C is never closed.
	C <-chan struct{}

	c     chan struct{}
	ring  *Ring
	index int // index in ring.watchers.list; stopped after Stop
}

// stopped is the value of Watcher.index after Stop.
const stopped = -1

// watchers holds the Watchers of a ring. It has its own mutex, so that signals are sent while
// Ring.mu is unlocked. The woken goroutines lock Ring.mu.
type watchers struct {
	mu   sync.Mutex
	list []*Watcher // list[w.index] is w
}

// signal sends a signal to each Watcher. The caller must not hold Ring.mu.
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
	default: // C already has a signal
	}
}

// Watch returns a new Watcher. The caller must call [Watcher.Stop] when the Watcher is no longer
// needed. The Watcher's channel C signals only frames that are published after Watch, so call Take
// on each cursor before the first receive from C. If the ring is closed, C has a signal at once.
func (r *Ring) Watch() *Watcher {
	ch := make(chan struct{}, 1)
	w := &Watcher{C: ch, c: ch, ring: r}
	s := &r.watchers
	s.mu.Lock()
	w.index = len(s.list)
	s.list = append(s.list, w)
	s.mu.Unlock()
	if r.isClosed() { // Close may have run before the Watcher was on the list
		w.signal()
	}
	return w
}

// Stop removes the Watcher from the ring, so that its channel C gets no more signals. A signal that
// was sent before Stop may still be in C. Stop may be called from any goroutine, and more than
// once.
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

// announceSoon is called after a new frame. It reports whether the caller must signal the Watchers
// now. If not, r.timer signals them later. The caller must hold r.mu.
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

// If the timer is going to signal the Watchers, stopTimer stops the timer and returns true. The
// caller must then signal the Watchers. The caller must hold r.mu.
func (r *Ring) stopTimer() bool {
	if r.due == 0 {
		return false
	}
	r.due = 0
	r.timer.Stop()
	return true
}

// Flush signals all Watchers at once if the option [Latency] has delayed their signal. The
// publisher calls Flush when it will publish nothing for a while.
func (r *Ring) Flush() {
	r.mu.Lock()
	waiting := r.stopTimer()
	r.mu.Unlock()
	if waiting {
		r.watchers.signal()
	}
}

func (r *Ring) expire() {
	r.mu.Lock()
	// Flush or Close may have signalled already, and a later frame may have set a new r.due.
	late := r.due != 0 && r.now() >= r.due && r.stopTimer()
	r.mu.Unlock()
	if late {
		r.watchers.signal()
	}
}
