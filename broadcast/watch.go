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

// stopped is the value of a Watcher's index field after Stop, when the Watcher is no longer in the
// ring's list.
const stopped = -1

// watchers holds the Watchers of a ring. It has its own mutex, so that the ring's mutex is free for
// the goroutines that a signal wakes.
type watchers struct {
	mu   sync.Mutex
	list []*Watcher // list[w.index] is w
}

// signal signals each Watcher. The caller must not hold Ring.mu.
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
	if r.isClosed() { // after the Watcher is on the list, so that Close cannot be missed
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

// announceSoon is called after a frame is added. It reports whether the caller must signal the
// Watchers now. If not, the timer signals the Watchers later. The caller must hold r.mu.
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

// announce stops the timer if it was going to signal the Watchers. It then returns true, and the
// caller must signal the Watchers instead. The caller must hold r.mu.
func (r *Ring) announce() bool {
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
	waiting := r.announce()
	r.mu.Unlock()
	if waiting {
		r.watchers.signal()
	}
}

func (r *Ring) expire() {
	r.mu.Lock()
	// Flush or Close may have signalled the watchers already, and a later frame may have started
	// the timer again. In these cases, r.due (the time of the next signal) is 0 or in the future.
	late := r.due != 0 && r.now() >= r.due && r.announce()
	r.mu.Unlock()
	if late {
		r.watchers.signal()
	}
}
