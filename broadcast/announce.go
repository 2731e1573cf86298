package broadcast

import "time"

// An announcer tells readers of new frames: watchers, and cursors in Wait. It
// is a part of Ring, guarded by Ring.mu.
//
// Frames below announced have been told of. While there are others, and the
// ring's latency is not 0, due is when they will be.
type announcer struct {
	announced int64
	unheard   int64 // bytes published since the last announcement
	due       int64 // ring time; 0 while the timer is not armed
	timer     *time.Timer

	watchers []*Watcher // each at its index
	waiting  []*Cursor  // each at its waitIndex
	waking   []*Cursor  // room for those that announce takes out of waiting
	wakers   int        // goroutines between announce and the end of wake
}

// announceSoon notes a new frame, which it announces now or lets the timer
// announce. The caller holds r.mu, and calls wake with the result after it has
// let go of it.
func (r *Ring) announceSoon(size, now int64) []*Cursor {
	r.unheard += size
	early := r.opts.wakeBytes > 0 && r.unheard >= r.opts.wakeBytes
	if r.opts.latency == 0 || early {
		return r.announce()
	}
	if r.due == 0 {
		r.due = now + int64(r.opts.latency)
		r.timer.Reset(r.opts.latency)
	}
	return nil
}

// expire is what the timer calls.
func (r *Ring) expire() {
	r.mu.Lock()
	if r.due == 0 || r.now() < r.due {
		// Announced or closed since the timer fired, and perhaps armed again.
		r.mu.Unlock()
		return
	}
	woken := r.announce()
	r.mu.Unlock()
	r.wake(woken)
}

// announce signals the watchers, and takes the cursors that have something to
// read now off the waiting list, for wake. r.mu is held.
func (r *Ring) announce() (woken []*Cursor) {
	r.announced = r.frames.head
	r.unheard = 0
	if r.due != 0 {
		r.due = 0
		r.timer.Stop()
	}
	for _, w := range r.watchers {
		w.signal()
	}
	if len(r.waiting) == 0 {
		return nil
	}
	// The signals to cursors are sent outside of the lock, because each makes
	// a goroutine ready that will want the lock. Only one waker can use the
	// spare list; a second one at the same time (the timer and Publish) sends
	// its signals here, as does one whose list is too short for all.
	alone := r.wakers == 0
	woken = r.waking[:0]
	still := r.waiting[:0]
	for _, c := range r.waiting {
		if !c.ready() {
			c.waitIndex = len(still)
			still = append(still, c)
			continue
		}
		c.waitIndex = notWaiting
		if alone && len(woken) < cap(woken) {
			woken = append(woken, c)
		} else {
			c.signal()
		}
	}
	clear(r.waiting[len(still):])
	r.waiting = still
	if !alone || len(woken) == 0 {
		return nil
	}
	r.waking = nil
	r.wakers++
	return woken
}

// wake signals the cursors that announce returned. The caller does not hold r.mu.
func (r *Ring) wake(woken []*Cursor) {
	if len(woken) == 0 {
		return
	}
	for i, c := range woken {
		woken[i] = nil
		c.signal()
	}
	r.mu.Lock()
	r.waking = woken[:0]
	r.wakers--
	r.mu.Unlock()
}

// A Watcher is told of new frames through a channel. It suits a goroutine that
// serves many cursors or waits for other things as well; one that serves a
// single cursor may call [Cursor.Wait] instead.
type Watcher struct {
	// C is signalled at each announcement (see [Latency]) and when the ring
	// is closed. It has room for one signal, so that announcements which
	// nobody has received yet become one. It is never closed.
	C <-chan struct{}

	c     chan struct{}
	ring  *Ring
	index int // in ring.watchers; notWaiting after Stop
}

// Watch returns a new Watcher, which its owner ends with Stop. Look at the
// cursors once before the first wait: frames that were announced before are not
// announced again. If the ring is closed, C has a signal at once.
func (r *Ring) Watch() *Watcher {
	ch := make(chan struct{}, 1)
	r.mu.Lock()
	defer r.mu.Unlock()
	w := &Watcher{C: ch, c: ch, ring: r, index: len(r.watchers)}
	r.watchers = append(r.watchers, w)
	if r.closed {
		w.signal()
	}
	return w
}

// Stop ends the signals; one that was sent before may still be in C. Stop may
// be called from any goroutine, and more than once.
func (w *Watcher) Stop() {
	r := w.ring
	r.mu.Lock()
	defer r.mu.Unlock()
	if w.index == notWaiting {
		return
	}
	last := len(r.watchers) - 1
	r.watchers[w.index] = r.watchers[last]
	r.watchers[w.index].index = w.index
	r.watchers[last] = nil
	r.watchers = r.watchers[:last]
	w.index = notWaiting
}

func (w *Watcher) signal() {
	select {
	case w.c <- struct{}{}:
	default: // it has not received the last one yet
	}
}
