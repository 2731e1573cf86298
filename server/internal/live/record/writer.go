package record

import (
	"errors"
	"io/fs"
	"log/slog"
	"path"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/media/mp4"
)

// maxEarlier limits how much earlier than the first fragment of a file the audio of a later fragment
// may begin. If a fragment begins even earlier, the time of the stream has restarted.
const maxEarlier = time.Second

// A writer writes the queue of a Recording to files. Only the writer goroutine uses it.
type writer struct {
	cfg    *Config
	store  *store
	log    *slog.Logger
	stream string

	movie     millrace.Chain // the init segment of the following fragments
	file      *file          // nil: the next keyframe begins a file
	counted   int64          // bytes of file that the store has counted
	broken    string         // the name of a file that could not be finished
	failing   bool           // an error has occurred since the last successful write
	retryAt   time.Time
	admission admission
}

// An entry is an element of a Recording's queue: a fragment, an init segment, or the end of a file.
type entry struct {
	mp4.FragmentInfo
	at   time.Time
	init int  // size of the init segment; 0 if the entry is not an init segment
	ends bool // the entry is the end of a file
}

// write writes entries to files. c holds their bytes. write may remove bytes from c, but the caller
// remains its owner.
func (w *writer) write(c *millrace.Chain, entries []entry) {
	for i := range entries {
		e := &entries[i]
		if w.cfg.Admit != nil && !e.ends && !w.admission.isAdmitted(w.cfg, w.stream, w.log) {
			if e.init > 0 { // the init segment is needed if the recording begins later
				w.movie.Release()
				c.CutTo(&w.movie, e.init)
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
			c.CutTo(&w.movie, e.init)
		case w.file == nil && !w.begin(entries[i:]):
			c.Discard(e.Size)
			w.store.countLost(1, e.Size)
		default:
			w.store.hidden.Add(int64(w.file.add(e.FragmentInfo, e.at, c)))
		}
	}
	w.flush()
	if w.store.makeRoom() && w.file != nil {
		w.end()
		w.store.makeRoom()
	}
}

// fileEnds reports whether a new file must begin with the keyframe e. There are three reasons: a
// multiple of Config.Every has passed, the stream's time has restarted, or the current file has
// become too large.
func (w *writer) fileEnds(e *entry) bool {
	// If the clock was set back by less than a period, the current file continues.
	period := e.at.Truncate(w.cfg.Every)
	if period.After(w.file.period) || period.Before(w.file.period.Add(-w.cfg.Every)) {
		return true
	}
	return e.End-w.file.base < w.file.segments.line.End()-timeSlack || w.store.mustEnd(w.file.next)
}

// begin starts a new file with the first of the entries. It returns false if the file cannot begin
// with that fragment, or cannot be created at present.
func (w *writer) begin(entries []entry) bool {
	e := &entries[0]
	if !e.Key || w.movie.Len() == 0 || w.failing && w.cfg.now().Before(w.retryAt) {
		return false
	}
	if w.broken != "" && !w.finish() {
		return false
	}
	f, err := createFile(w.cfg, w.stream, e.at, startOf(entries), &w.movie)
	if err != nil {
		w.fail(err)
		return false
	}
	w.file, w.counted = f, 0
	return true
}

// startOf returns the time of the earliest sample of a file that begins with entries. If the first
// fragment has only video, the audio of a later one may begin earlier.
func startOf(entries []entry) time.Duration {
	first := entries[0].First
	for _, e := range entries[1:] {
		if e.init > 0 || e.ends {
			break
		}
		if e.First > first-maxEarlier {
			first = min(first, e.First)
		}
	}
	return first
}

// flush writes the pending fragments. If that fails, they are lost, and the file ends.
func (w *writer) flush() {
	f := w.file
	if f == nil || f.pending.Len() == 0 {
		return
	}
	bytes := f.pending.Len()
	if err := f.write(); err != nil {
		w.store.countLost(f.fragments, bytes)
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

func (w *writer) end() {
	if w.file == nil {
		return
	}
	w.file.close()
	w.broken = w.file.name
	w.file = nil
	w.finish()
}

// finish completes the recording that is named in w.broken. If an error occurs, finish returns
// false, and the next call to begin tries again. If begin is not called again, the next Open
// completes the recording.
func (w *writer) finish() bool {
	k := finishedFile{stream: w.stream, stamp: path.Base(w.broken)}
	root, err := w.cfg.open(w.cfg.Dir)
	if err == nil {
		k.bytes, err = finish(root, w.broken)
		_ = root.Close()
	}
	if errors.Is(err, fs.ErrNotExist) {
		k.bytes, err = 0, nil // the directory does not exist any more
	}
	if err != nil {
		w.fail(err)
		return false
	}
	w.store.addFile(k, w.counted)
	w.broken, w.counted = "", 0
	return true
}

// fail records a disk error. It logs only the first of consecutive errors.
func (w *writer) fail(err error) {
	w.store.failures.Add(1)
	w.retryAt = w.cfg.now().Add(retryAfter)
	if !w.failing {
		w.failing = true
		w.log.Warn("recording fails; it continues at a keyframe when the disk accepts files again",
			"reason", err)
	}
}

// leave releases the memory that the writer holds. If a recording could not be completed, leave
// nevertheless adds the recording to the store's list of files.
func (w *writer) leave() {
	w.movie.Release()
	if w.broken != "" {
		w.store.addFile(finishedFile{stream: w.stream, stamp: path.Base(w.broken), bytes: w.counted},
			w.counted)
	}
}
