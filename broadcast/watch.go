package broadcast

import "sync"

// A Watcher signals new frames through a channel. Use it in a goroutine that serves several cursors
// or also waits for other events.
type Watcher struct {
	// C receives a signal when frames are announced (see [Latency]) and when the ring is closed. C
	// has a buffer of one signal, and a second one is not sent until the first is received. C is
	// never closed.
	C <-chan struct{}

	c     chan struct{}
	ring  *Ring
	index int // index in ring.watchers.list; stopped after Stop
}

// stopped is the index of a Watcher after Stop.
const stopped = -1

// watchers holds the Watchers of a ring. It has its own mutex, because each goroutine that is woken
// will lock the ring's mutex.
type watchers struct {
	mu   sync.Mutex
	list []*Watcher // each Watcher at its index
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

// Watch returns a new Watcher. Its owner ends it with Stop. Call Take on the cursors before the
// first wait, because C gets no signal for earlier frames. If the ring is closed, C has a signal at
// once.
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

// Stop ends the signals. C may still have an earlier signal. Stop may be called from any goroutine,
// and more than once.
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

// announceSoon is called for a new frame. It reports whether the caller must signal the watchers
// now. If not, the timer signals them later. r.mu is held.
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

// announce reports whether there are frames that the watchers have not been signalled for, and
// stops the timer. The caller then signals the watchers. r.mu is held.
func (r *Ring) announce() bool {
	if r.due == 0 {
		return false
	}
	r.due = 0
	r.timer.Stop()
	return true
}

// Flush signals the watchers at once for the frames that [Latency] delays. The publisher calls it
// when it will publish nothing for a while.
func (r *Ring) Flush() {
	r.mu.Lock()
	waiting := r.announce()
	r.mu.Unlock()
	if waiting {
		r.watchers.signal()
	}
}

// expire is called when the timer fires. It signals the watchers if frames are due.
func (r *Ring) expire() {
	r.mu.Lock()
	// The ring may have been flushed or closed since the timer fired, and the timer may have been
	// set again.
	late := r.due != 0 && r.now() >= r.due && r.announce()
	r.mu.Unlock()
	if late {
		r.watchers.signal()
	}
}
