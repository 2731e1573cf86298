package record

import (
	"log/slog"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/media/mp4"
	"github.com/millrace-io/millrace/server/internal/lock"
)

const (
	// gatherTime and gatherBytes determine when the queue is written: gatherTime after the first
	// entry has come, or as soon as the queue has gatherBytes bytes. Without this delay, each
	// fragment would wake the writer. Fragments arrive one by one, at least 25 per second.
	gatherTime  = 500 * time.Millisecond
	gatherBytes = 256 << 10
)

// A Recording records one stream to files. Only one goroutine at a time may call Init, Add and
// Close. These methods never wait for the disk.
type Recording struct {
	cfg    *Config
	store  *store
	name   string
	writer writer        // used only by the writer goroutine
	spare  []entry       // reused memory for entries; used only by the writer goroutine
	done   chan struct{} // closed when the writer goroutine has ended

	notEmpty, mustWrite chan struct{} // the queue is not empty; it must be written now

	mu      lock.Mutex
	closed  bool
	init    millrace.Chain // an init segment that is not in the queue yet
	hasInit bool           // Init was called
	needKey bool           // fragments are dropped up to the next keyframe
	queue   millrace.Chain // the bytes of all entries
	entries []entry
	held    int64 // bytes in the queue and in the current write
}

func newRecording(cfg *Config, files *store, log *slog.Logger, name string) *Recording {
	return &Recording{
		cfg: cfg, store: files, name: name, needKey: true,
		writer: writer{cfg: cfg, store: files, log: log.With("stream", name), stream: name},
		done:   make(chan struct{}), notEmpty: make(chan struct{}, 1), mustWrite: make(chan struct{}, 1),
	}
}

// reopen begins a new recording while the writer goroutine still writes the previous one. It
// returns false if r is not closed. The caller must hold Archive.mu.
func (r *Recording) reopen() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		return false
	}
	r.closed, r.needKey = false, true
	return true
}

// Init sets the init segment of the following fragments. It takes ownership of body. The next
// keyframe begins a new file.
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

// Add records the fragment in body, which ReadFragment has described as f. It takes ownership of
// body. The fragment is lost if it comes before the first Init, or if the queue is full. After a
// loss, all fragments up to the next keyframe are lost.
func (r *Recording) Add(f mp4.FragmentInfo, body *millrace.Chain) {
	f.Size = body.Len()
	r.mu.Lock()
	defer r.mu.Unlock()
	n := int64(f.Size + r.init.Len())
	if r.closed || !r.hasInit || r.needKey && !f.Key || r.held+n > r.cfg.QueueBytes {
		r.needKey = true
		body.Release()
		if !r.closed {
			r.store.countLost(1, f.Size)
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
	notify(r.notEmpty)
	if r.queue.Len() >= gatherBytes {
		notify(r.mustWrite)
	}
}

// Close ends the recording. The file ends after the queue has been written. A second call does
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
	notify(r.notEmpty)
	notify(r.mustWrite)
}

// abandon drops the queued fragments. Close must have been called before.
func (r *Recording) abandon() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held -= int64(r.queue.Len())
	for i := range r.entries {
		if n := r.entries[i].Size; n > 0 {
			r.store.countLost(1, n)
		}
	}
	r.queue.Release()
	r.entries = append(r.entries[:0], entry{ends: true})
}

// shed drops the queued fragments, and returns the number of bytes dropped. It drops nothing if the
// queue is shorter than a quarter of its limit, because the disk is fast enough as long as the
// queue is short.
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
			r.queue.CutTo(&rest, e.init)
			left = append(left, e)
			continue
		}
		r.queue.Discard(e.Size)
		r.store.countLost(1, e.Size)
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

// notify makes the current or the next receive from c return. It does not wait.
func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// writeQueued gathers fragments for at most gatherTime, and writes them.
func (r *Recording) writeQueued() {
	<-r.notEmpty
	select {
	case <-r.mustWrite:
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

func (r *Recording) take() (c millrace.Chain, entries []entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c.Merge(&r.queue)
	entries, r.entries = r.entries, r.spare[:0]
	return c, entries
}

func (r *Recording) drained() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.closed && len(r.entries) == 0
}
