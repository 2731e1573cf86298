package record

import (
	"log/slog"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/media/mp4"
	"github.com/millrace-io/millrace/server/internal/lock"
)

const (
	// gatherTime and gatherBytes say when the queue is written: after this time, or at this size.
	// Fragments come one by one, at least 25 a second; a write for each would wake the writer as
	// often.
	gatherTime  = 500 * time.Millisecond
	gatherBytes = 256 << 10
)

// A Recording keeps one stream in files. Init, Add and Close are for one goroutine at a time, and
// never wait for the disk.
type Recording struct {
	cfg    *Config
	store  *store
	name   string
	writer writer        // of the writer goroutine
	spare  []entry       // memory for entries: of the writer goroutine
	done   chan struct{} // closed when the writer goroutine has ended

	some, full chan struct{} // the queue has fragments; the queue has enough for a write at once

	mu      lock.Mutex
	closed  bool
	init    millrace.Chain // that was set and is not in the queue
	hasInit bool           // one was set
	needKey bool           // fragments up to the next keyframe are lost
	queue   millrace.Chain // the bytes of entries
	entries []entry
	held    int64 // bytes in the queue, and of the write under way
}

func newRecording(cfg *Config, files *store, log *slog.Logger, name string) *Recording {
	return &Recording{
		cfg: cfg, store: files, name: name, needKey: true,
		writer: writer{cfg: cfg, store: files, log: log.With("stream", name), stream: name},
		done:   make(chan struct{}), some: make(chan struct{}, 1), full: make(chan struct{}, 1),
	}
}

// reopen starts a new recording while the writer goroutine still writes the previous one. It
// reports false if r is not closed. Archive.mu is held.
func (r *Recording) reopen() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		return false
	}
	r.closed, r.needKey = false, true
	return true
}

// Init sets the init segment of the fragments that come: the next keyframe begins a new file. It
// takes ownership of body.
func (r *Recording) Init(body *millrace.Chain) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.init.Release()
	if r.closed {
		body.Release()
		return
	}
	r.init.Merge(body)
	r.hasInit, r.needKey = true, true
}

// Add records the fragment body; f is the result of ReadFragment. It takes ownership of body.
// Fragments are lost while the queue is full, until the next keyframe after that, and before the
// first Init.
func (r *Recording) Add(f mp4.FragmentInfo, body *millrace.Chain) {
	f.Size = body.Len()
	r.mu.Lock()
	defer r.mu.Unlock()
	n := int64(f.Size + r.init.Len())
	if r.closed || !r.hasInit || r.needKey && !f.Key || r.held+n > r.cfg.QueueBytes {
		r.needKey = true
		body.Release()
		if !r.closed {
			r.store.lose(1, f.Size)
		}
		return
	}
	r.needKey = false
	at := r.cfg.now()
	if r.init.Len() > 0 {
		r.entries = append(r.entries, entry{init: r.init.Len(), at: at})
		r.queue.Merge(&r.init)
	}
	r.entries = append(r.entries, entry{FragmentInfo: f, at: at})
	r.queue.Merge(body)
	r.held += n
	notify(r.some)
	if r.queue.Len() >= gatherBytes {
		notify(r.full)
	}
}

// Close ends the recording: its file ends when the queue has been written. Closing twice does
// nothing.
func (r *Recording) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	r.closed, r.hasInit = true, false
	r.init.Release()
	r.entries = append(r.entries, entry{ends: true})
	notify(r.some)
	notify(r.full)
}

// abandon gives up what waits. The Recording is closed.
func (r *Recording) abandon() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held -= int64(r.queue.Len())
	for i := range r.entries {
		if n := r.entries[i].Size; n > 0 {
			r.store.lose(1, n)
		}
	}
	r.queue.Release()
	r.entries = append(r.entries[:0], entry{ends: true})
}

// shed gives up the fragments that wait, if they are many for a disk that keeps up, and returns how
// many bytes go.
func (r *Recording) shed() (freed int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if int64(r.queue.Len()) < r.cfg.QueueBytes/4 {
		return 0
	}
	var rest millrace.Chain
	left := r.entries[:0]
	for _, e := range r.entries {
		if e.init > 0 || e.ends {
			r.queue.Cut(&rest, e.init)
			left = append(left, e)
			continue
		}
		r.queue.Discard(e.Size)
		r.store.lose(1, e.Size)
		freed += int64(e.Size)
	}
	r.queue.Merge(&rest)
	r.entries = left
	r.held -= freed
	r.needKey = true
	return freed
}

func (r *Recording) queued() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.held
}

// notify wakes the goroutine that waits for c, or will.
func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// writeQueued waits until something is in the queue, and for more of it during gatherTime, and
// writes it.
func (r *Recording) writeQueued() {
	<-r.some
	select {
	case <-r.full:
	case <-time.After(gatherTime):
	}
	c, entries := r.take()
	n := int64(c.Len())
	r.writer.write(&c, entries)
	c.Release()
	r.spare = entries
	r.mu.Lock()
	r.held -= n
	r.mu.Unlock()
}

// take returns all that waits.
func (r *Recording) take() (c millrace.Chain, entries []entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c.Merge(&r.queue)
	entries, r.entries = r.entries, r.spare[:0]
	return c, entries
}

// drained reports whether the Recording is closed and its queue is empty.
func (r *Recording) drained() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.closed && len(r.entries) == 0
}
