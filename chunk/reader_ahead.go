package chunk

import (
	"io"
	"time"
)

// closeGrace is how long Close waits for a source that ought to have been woken, and was not.
const closeGrace = time.Second

// readAhead starts the goroutine, or makes it go on if it was told to end. r.mu is held.
func (r *Reader) readAhead() {
	r.stopping = false
	if r.running || r.passing != nil || r.final != nil {
		return
	}
	r.running, r.leaving = true, false
	r.done = make(chan struct{})
	go r.run()
}

// run reads until it is told to end.
func (r *Reader) run() {
	r.mu.Lock()
	defer r.ended()
	for {
		for r.queue.len() >= r.depth && !r.stopping && !r.closed {
			r.tuner.queueFull()
			r.room.Wait()
		}
		if r.stopping || r.closed || r.passing != nil || r.final != nil {
			r.leaving = true
			return
		}
		r.unwake()
		r.read()
	}
}

// ended is where the goroutine ends, also if src.Read panicked or ended it. r.mu is held, and let go.
func (r *Reader) ended() {
	v := recover()
	if !r.leaving {
		if r.fault = v; v == nil {
			r.fault = "chunk: the source's Read ended its goroutine"
		}
	}
	r.running = false
	r.unwake()
	r.notify()
	close(r.done)
	r.mu.Unlock()
}

// interrupt tells the goroutine to end, and wakes it if it can. r.mu is held.
func (r *Reader) interrupt() {
	if !r.running {
		return
	}
	r.stopping = true
	r.room.Signal()
	if r.reading && !r.woken && r.waker != nil {
		r.woken = r.waker.SetReadDeadline(longAgo) == nil
	}
}

// unwake takes back the deadline that woke the source. r.mu is held, and the source is not being read.
func (r *Reader) unwake() {
	if r.woken {
		r.woken = false
		_ = r.waker.SetReadDeadline(noDeadline) // fails if the source is closed, and then the next Read tells
	}
}

// Close ends the goroutine that reads, gives back what was read ahead, and makes whoever reads get [ErrClosed], even a
// Next that waits on another goroutine. With [CloseSource] it closes the source and returns its error; otherwise it
// returns nil. Chunks that Next gave live on. Closing again does nothing.
//
// A Read that hangs is ended by a deadline in the past if the source has SetReadDeadline, as connections and pipes do,
// or by closing the source with [CloseSource]. Close waits for that, a second at most, and leaves the source without a
// read deadline. A Read that can be ended by neither goes on until it returns by itself. Close does not wait for it;
// the goroutine ends and its block goes back when that Read returns.
func (r *Reader) Close() error {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return nil
	}
	r.closed = true
	r.queue.release()
	r.cur.ref.Release()
	r.interrupt()
	if !r.reading {
		r.filling.release()
	}
	r.notify()
	done, soon := r.done, r.running && (!r.reading || r.woken || r.owned)
	r.mu.Unlock()
	var err error
	if r.owned {
		err = r.src.(io.Closer).Close()
	}
	if soon {
		timer := time.NewTimer(closeGrace)
		defer timer.Stop()
		select {
		case <-done:
		case <-timer.C:
		}
	}
	return err
}
