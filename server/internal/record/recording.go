package record

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/media/mp4"
	"github.com/millrace-io/millrace/server/internal/lock"
)

const (
	// gatherTime and gatherBytes say when what waits is written: after this time, or when it is so much. Fragments
	// come one by one, 25 a second and more; a write for each would wake the writer so often.
	gatherTime  = 500 * time.Millisecond
	gatherBytes = 256 << 10

	// retryAfter is the pause after an error of the disk.
	retryAfter = 5 * time.Second
)

// A Recording keeps one stream in files. Init, Add and Close are for one goroutine at a time, and never wait for the
// disk.
type Recording struct {
	a    *Archive
	name string
	log  *slog.Logger
	done chan struct{} // closed when the writer goroutine has ended

	some, full chan struct{} // there is something to write; there is so much that it is written at once

	mu      lock.Mutex
	closed  bool
	init    millrace.Chain // that was set and is not in the queue
	hasInit bool           // one was set
	needKey bool           // fragments up to the next key frame are lost
	queue   millrace.Chain // the bytes of entries
	entries []entry
	held    int64 // bytes in the queue, and those that are being written

	// These belong to the writer goroutine.
	movie   millrace.Chain // the init segment of the fragments that come
	file    *file          // nil: the next key frame begins one
	counted int64          // bytes of file that the archive counts
	broken  string         // the name of a file that could not be finished
	failing bool           // since the last write that went well
	retryAt time.Time

	admission admission
}

// An entry is something in a Recording's queue.
type entry struct {
	mp4.FragmentInfo
	at   time.Time
	init int  // the bytes of an init segment, if it is one
	ends bool // it is the end of a file
}

func newRecording(a *Archive, name string) *Recording {
	return &Recording{
		a: a, name: name, log: a.log.With("stream", name), needKey: true,
		done: make(chan struct{}), some: make(chan struct{}, 1), full: make(chan struct{}, 1),
	}
}

// reopen begins anew while the writer goroutine still writes what came before. a.mu is held.
func (r *Recording) reopen() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		return ErrInUse
	}
	r.closed, r.needKey = false, true
	return nil
}

// Init sets the init segment of the fragments that come: the next key frame begins a new file. It takes ownership of
// body.
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

// Add records the fragment body, of which f is what ReadFragment returned. It takes ownership of body. While the queue
// is full, and until the next key frame after that, fragments are lost. Before the first Init all are.
func (r *Recording) Add(f mp4.FragmentInfo, body *millrace.Chain) {
	f.Size = body.Len()
	r.mu.Lock()
	defer r.mu.Unlock()
	n := int64(f.Size + r.init.Len())
	if r.closed || !r.hasInit || r.needKey && !f.Key || r.held+n > r.a.cfg.QueueBytes {
		r.needKey = true
		body.Release()
		if !r.closed {
			r.lose(1, f.Size)
		}
		return
	}
	r.needKey = false
	at := r.a.cfg.now()
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

// Close ends the recording: its file ends when what waits has been written. Closing twice does nothing.
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
			r.lose(1, n)
		}
	}
	r.queue.Release()
	r.entries = append(r.entries[:0], entry{ends: true})
}

// shed gives up the fragments that wait, if they are many for a disk that keeps up, and returns how many bytes go.
func (r *Recording) shed() (freed int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if int64(r.queue.Len()) < r.a.cfg.QueueBytes/4 {
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
		r.lose(1, e.Size)
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

// lose counts fragments that are in no file.
func (r *Recording) lose(fragments, bytes int) {
	r.a.lost.Add(int64(fragments))
	r.a.lostBytes.Add(int64(bytes))
}

// notify wakes the goroutine that waits for c, or will.
func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// run is the writer goroutine.
func (r *Recording) run() {
	defer close(r.done)
	<-r.a.ready
	var entries []entry
	for {
		<-r.some
		select {
		case <-r.full:
		case <-time.After(gatherTime):
		}
		var c millrace.Chain
		c, entries = r.take(entries)
		n := int64(c.Len())
		r.write(&c, entries)
		c.Release()
		r.mu.Lock()
		r.held -= n
		r.mu.Unlock()
		if r.leave() {
			if r.broken != "" {
				r.a.keep(kept{stream: r.name, stamp: path.Base(r.broken), bytes: r.counted}, r.counted)
			}
			return
		}
	}
}

// take returns all that waits. free is memory for the entries that come.
func (r *Recording) take(free []entry) (c millrace.Chain, entries []entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c.Merge(&r.queue)
	entries, r.entries = r.entries, free[:0]
	return c, entries
}

// leave reports whether the writer goroutine ends: if the Recording is closed and all is written.
func (r *Recording) leave() bool {
	r.a.mu.Lock()
	defer r.a.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed || len(r.entries) > 0 {
		return false
	}
	r.movie.Release()
	delete(r.a.recordings, r.name)
	return true
}

// write puts what waited into files. It borrows c, and may take bytes from it.
func (r *Recording) write(c *millrace.Chain, entries []entry) {
	for i := range entries {
		e := &entries[i]
		if r.a.cfg.Admit != nil && !e.ends && !r.admitted() {
			if e.init > 0 { // it is needed if the recording begins later
				r.movie.Release()
				c.Cut(&r.movie, e.init)
			} else {
				c.Discard(e.Size)
			}
			continue
		}
		if r.file != nil && (e.ends || e.init > 0 || e.Key && r.fileEnds(e)) {
			r.flush()
			r.end()
		}
		switch {
		case e.ends:
			r.admission.end()
		case e.init > 0:
			r.movie.Release()
			c.Cut(&r.movie, e.init)
		case r.file == nil && !r.begin(e):
			c.Discard(e.Size)
			r.lose(1, e.Size)
		default:
			r.file.add(e.FragmentInfo, e.at, c)
		}
	}
	r.flush()
	if r.a.makeRoom() && r.file != nil {
		r.end()
		r.a.makeRoom()
	}
}

// fileEnds reports whether e, which is a key frame, begins a new file: at the hour, where the stream's time starts over,
// and where the file is large.
func (r *Recording) fileEnds(e *entry) bool {
	// A clock that goes back by a moment begins none.
	period := e.at.Truncate(r.a.cfg.Every)
	if period.After(r.file.period) || period.Before(r.file.period.Add(-r.a.cfg.Every)) {
		return true
	}
	return e.End-r.file.base < r.file.segments.line.End()-timeSlack || r.a.enough(r.file.next)
}

// begin begins a file, if e is a place to begin.
func (r *Recording) begin(e *entry) bool {
	if !e.Key || r.movie.Len() == 0 || r.failing && r.a.cfg.now().Before(r.retryAt) {
		return false
	}
	if r.broken != "" && !r.finish() {
		return false
	}
	f, err := r.a.createFile(r.name, e, &r.movie)
	if err != nil {
		r.fail(err)
		return false
	}
	r.file, r.counted = f, 0
	return true
}

// flush writes what was added to the file.
func (r *Recording) flush() {
	f := r.file
	if f == nil || f.run.Len() == 0 {
		return
	}
	bytes := f.run.Len()
	if err := f.write(); err != nil {
		r.lose(f.fragments, bytes)
		r.fail(err)
		r.end()
		return
	}
	r.a.written.Add(int64(bytes))
	r.admission.bytes += int64(bytes)
	r.a.grow(f.size() - r.counted)
	r.counted = f.size()
	if r.failing {
		r.failing = false
		r.log.Info("the recording goes on", "file", path.Base(f.name)+mediaExt)
	}
}

// end ends the file.
func (r *Recording) end() {
	if r.file == nil {
		return
	}
	r.file.close()
	r.broken = r.file.name
	r.file = nil
	r.finish()
}

// finish finishes the file that is called broken. It returns false if that fails: begin tries again, or the next Open.
func (r *Recording) finish() bool {
	k := kept{stream: r.name, stamp: path.Base(r.broken)}
	root, err := os.OpenRoot(r.a.cfg.Dir)
	if err == nil {
		k.bytes, err = finish(root, r.broken)
		_ = root.Close()
	}
	if errors.Is(err, fs.ErrNotExist) {
		k.bytes, err = 0, nil // the directory is gone
	}
	if err != nil {
		r.fail(err)
		return false
	}
	r.a.keep(k, r.counted)
	r.broken, r.counted = "", 0
	return true
}

// fail notes an error of the disk. The first one in a row is logged.
func (r *Recording) fail(err error) {
	r.a.failures.Add(1)
	r.retryAt = r.a.cfg.now().Add(retryAfter)
	if !r.failing {
		r.failing = true
		r.log.Warn("recording fails; it goes on at a key frame when the disk takes files again", "reason", err)
	}
}
