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
)

// A writer puts the entries of a Recording's queue into files. It belongs to the writer goroutine.
type writer struct {
	cfg    *Config
	store  *store
	log    *slog.Logger
	stream string

	movie     millrace.Chain // the init segment of the fragments that come
	file      *file          // nil: the next keyframe begins one
	counted   int64          // bytes of file that the archive counts
	broken    string         // the name of a file that could not be finished
	failing   bool           // since the last write that went well
	retryAt   time.Time
	admission admission
}

// An entry is something in a Recording's queue.
type entry struct {
	mp4.FragmentInfo
	at   time.Time
	init int  // the bytes of an init segment, if it is one
	ends bool // it is the end of a file
}

// write writes the queue to files. It borrows c, and may take bytes from it.
func (w *writer) write(c *millrace.Chain, entries []entry) {
	for i := range entries {
		e := &entries[i]
		if w.cfg.Admit != nil && !e.ends && !w.admission.admitted(w.cfg, w.stream, w.log) {
			if e.init > 0 { // it is needed if the recording begins later
				w.movie.Release()
				c.Cut(&w.movie, e.init)
			} else {
				c.Discard(e.Size)
			}
			continue
		}
		if w.file != nil && (e.ends || e.init > 0 || e.Key && w.fileEnds(e)) {
			w.flush()
			w.end()
		}
		switch {
		case e.ends:
			w.admission.end()
		case e.init > 0:
			w.movie.Release()
			c.Cut(&w.movie, e.init)
		case w.file == nil && !w.begin(e):
			c.Discard(e.Size)
			w.store.lose(1, e.Size)
		default:
			w.file.add(e.FragmentInfo, e.at, c)
		}
	}
	w.flush()
	if w.store.makeRoom() && w.file != nil {
		w.end()
		w.store.makeRoom()
	}
}

// fileEnds reports whether e, which is a keyframe, begins a new file: at the hour, where the
// stream's time starts over, and where the file is large.
func (w *writer) fileEnds(e *entry) bool {
	// A clock that goes back by a moment begins none.
	period := e.at.Truncate(w.cfg.Every)
	if period.After(w.file.period) || period.Before(w.file.period.Add(-w.cfg.Every)) {
		return true
	}
	return e.End-w.file.base < w.file.segments.line.End()-timeSlack || w.store.enough(w.file.next)
}

// begin begins a file, if e is a place to begin.
func (w *writer) begin(e *entry) bool {
	if !e.Key || w.movie.Len() == 0 || w.failing && w.cfg.now().Before(w.retryAt) {
		return false
	}
	if w.broken != "" && !w.finish() {
		return false
	}
	f, err := createFile(w.cfg, w.stream, e.at, e.First, &w.movie)
	if err != nil {
		w.fail(err)
		return false
	}
	w.file, w.counted = f, 0
	return true
}

// flush writes the added fragments to the file.
func (w *writer) flush() {
	f := w.file
	if f == nil || f.pending.Len() == 0 {
		return
	}
	bytes := f.pending.Len()
	if err := f.write(); err != nil {
		w.store.lose(f.fragments, bytes)
		w.fail(err)
		w.end()
		return
	}
	w.store.written.Add(int64(bytes))
	w.admission.bytes += int64(bytes)
	w.store.grow(f.size() - w.counted)
	w.counted = f.size()
	if w.failing {
		w.failing = false
		w.log.Info("the recording continues", "file", path.Base(f.name)+mediaExt)
	}
}

// end ends the file.
func (w *writer) end() {
	if w.file == nil {
		return
	}
	w.file.close()
	w.broken = w.file.name
	w.file = nil
	w.finish()
}

// finish finishes the file that is called broken. It returns false if that fails: begin tries
// again, or the next Open.
func (w *writer) finish() bool {
	k := kept{stream: w.stream, stamp: path.Base(w.broken)}
	root, err := os.OpenRoot(w.cfg.Dir)
	if err == nil {
		k.bytes, err = finish(root, w.broken)
		_ = root.Close()
	}
	if errors.Is(err, fs.ErrNotExist) {
		k.bytes, err = 0, nil // the directory is gone
	}
	if err != nil {
		w.fail(err)
		return false
	}
	w.store.keep(k, w.counted)
	w.broken, w.counted = "", 0
	return true
}

// fail notes an error of the disk. The first one in a row is logged.
func (w *writer) fail(err error) {
	w.store.failures.Add(1)
	w.retryAt = w.cfg.now().Add(retryAfter)
	if !w.failing {
		w.failing = true
		w.log.Warn("recording fails; it continues at a keyframe when the disk accepts files again",
			"reason", err)
	}
}

// leave releases the memory that the writer holds. A file that could not be finished counts as
// ended.
func (w *writer) leave() {
	w.movie.Release()
	if w.broken != "" {
		w.store.keep(kept{stream: w.stream, stamp: path.Base(w.broken), bytes: w.counted},
			w.counted)
	}
}
