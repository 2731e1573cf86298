package record

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace/server/internal/conn/limit"
	"github.com/millrace-io/millrace/server/internal/disk"
	"github.com/millrace-io/millrace/server/internal/lock"
)

// lockName is the name of the lock file in the directory of recordings. The process that records to
// the directory holds a lock on this file. No stream can have this name.
const lockName = "millrace-recordings#lock"

const (
	// lockEvery is the time between two attempts to lock the directory while the process that is
	// being replaced still holds the lock.
	lockEvery = 20 * time.Millisecond
	// If another process keeps the directory of recordings locked for longer than lockLate, an
	// error is logged. A process that is being replaced usually unlocks the directory much earlier,
	// because its shutdown takes at most eight seconds by default.
	lockLate = 20 * time.Second
)

// Errors that Archive.Stream returns.
var (
	ErrInUse  = errors.New("record: the stream is being recorded already")
	ErrClosed = errors.New("record: the archive is closed")
)

var errLocked = errors.New("another process records to this directory")

// An Archive is a directory of recordings. Its methods may be called from any goroutine.
type Archive struct {
	cfg  Config
	log  *slog.Logger
	lock disk.File

	ready    chan struct{} // closed when the directory is open, or opening has failed
	waiting  context.Context
	stopWait context.CancelFunc

	mu         lock.Mutex
	closed     bool
	recordings map[string]*Recording

	refused atomic.Int64
	store   store
}

// Open opens a directory of recordings, and finishes the recordings that a crash left unfinished.
// It ignores files that do not have the name of a recording. No other process may use the directory
// at the same time. The caller must call Close on the Archive.
//
// If Config.Successor is set, and another process has locked the directory, Open succeeds anyway.
// Fragments then wait in the queues of the recordings until the other process closes its Archive.
func Open(c Config) (*Archive, error) {
	if err := c.setDefaults(); err != nil {
		return nil, err
	}
	a := &Archive{cfg: c, log: lock.Logger(c.Log), recordings: make(map[string]*Recording),
		ready: make(chan struct{})}
	a.store.cfg, a.store.log = &a.cfg, a.log
	a.waiting, a.stopWait = context.WithCancel(context.Background())
	root, err := c.open(c.Dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if a.lock, err = root.OpenFile(lockName, os.O_RDWR|os.O_CREATE, fileMode); err != nil {
		return nil, fmt.Errorf("%s: %w", c.Dir, err) // root's errors lack the directory's name
	}
	err = flock(a.lock)
	if c.Successor && errors.Is(err, errLocked) {
		go a.await()
		return a, nil
	}
	if err == nil {
		err = a.store.readDir(root)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", c.Dir, err), a.lock.Close())
	}
	a.store.makeRoom()
	close(a.ready)
	return a, nil
}

// await waits until the process that is being replaced has unlocked the directory, and then opens
// the directory. It stops waiting when Close is called.
func (a *Archive) await() {
	defer close(a.ready)
	a.log.Info("recordings wait until the process that is replaced has ended its own", "in",
		a.cfg.Dir)
	began := time.Now()
	late := time.AfterFunc(lockLate, func() {
		a.log.Error(
			"recordings still wait for another process: frames that do not fit into their queues are lost", "in", a.cfg.Dir)
	})
	defer late.Stop()
	look := time.NewTicker(lockEvery)
	defer look.Stop()
	err := flock(a.lock)
	for ; errors.Is(err, errLocked); err = flock(a.lock) {
		select {
		case <-a.waiting.Done():
			return
		case <-look.C:
		}
	}
	var root disk.Root
	if err == nil {
		root, err = a.cfg.open(a.cfg.Dir)
	}
	if err == nil {
		err = a.store.readDir(root)
		_ = root.Close()
	}
	if err != nil { // new recordings may still work
		a.store.failures.Add(1)
		a.log.Error("the recordings that are there cannot be read", "in", a.cfg.Dir, "reason", err)
	}
	a.store.makeRoom()
	a.log.Info("recordings are written", "in", a.cfg.Dir, "after",
		time.Since(began).Round(time.Millisecond))
}

// Await waits until this process has locked the directory of recordings. Only an Archive with
// Config.Successor may have to wait. If ctx ends first, Await returns an error.
func (a *Archive) Await(ctx context.Context) error {
	select {
	case <-a.ready:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", a.cfg.Dir, errLocked)
	}
}

// Free drops queued fragments to save memory, until it has dropped at least n bytes. It drops only
// from long queues, which wait for a slow disk. It returns the number of bytes dropped.
func (a *Archive) Free(n int64) (freed int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, r := range a.recordings {
		if freed >= n {
			break
		}
		freed += r.shed()
	}
	return freed
}

// Stream begins to record the named stream. It does not access the disk. The caller must call Close
// on the Recording.
//
// If the stream has a Recording that is not closed, Stream returns ErrInUse. If the Recording is
// closed, but its queue is not written yet, Stream reopens it.
func (a *Archive) Stream(name string) (*Recording, error) {
	r, err := a.openRecording(name)
	if err != nil {
		a.refused.Add(1)
	}
	return r, err
}

func (a *Archive) openRecording(name string) (*Recording, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil, ErrClosed
	}
	r := a.recordings[name]
	if r != nil {
		if !r.reopen() {
			return nil, ErrInUse
		}
		return r, nil
	}
	r = newRecording(&a.cfg, &a.store, a.log, name)
	a.recordings[name] = r
	a.store.recordings.Add(1)
	go a.run(r)
	return r, nil
}

// run is the writer goroutine of r. It returns when r is closed and its queue has been written.
func (a *Archive) run(r *Recording) {
	defer close(r.done)
	<-a.ready
	for {
		r.writeQueued()
		if a.removeIfDrained(r) {
			r.writer.leave()
			return
		}
	}
}

// removeIfDrained removes r from the Archive if r is closed and the queue of r has been written. It
// reports whether it has removed r.
func (a *Archive) removeIfDrained(r *Recording) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !r.drained() {
		return false
	}
	delete(a.recordings, r.name)
	a.store.recordings.Add(-1)
	return true
}

// Close ends all recordings, and waits until they are on the disk. If ctx ends first, Close drops
// the queues and returns the error of ctx; the next Open then repairs the files. A second call does
// nothing.
func (a *Archive) Close(ctx context.Context) error {
	defer a.stopWait()
	a.mu.Lock()
	a.closed = true
	recordings := make([]*Recording, 0, len(a.recordings))
	for _, r := range a.recordings {
		recordings = append(recordings, r)
	}
	a.mu.Unlock()
	for _, r := range recordings {
		r.Close()
	}
	for i, r := range recordings {
		if limit.AwaitContext(ctx, r.done) == nil {
			continue
		}
		for _, r := range recordings[i:] {
			r.abandon()
		}
		return ctx.Err() // the lock stays until the process ends: a write may be in progress
	}
	a.stopWait()
	if err := limit.AwaitContext(ctx, a.ready); err != nil {
		return err
	}
	if err := a.lock.Close(); !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}

// Stats returns a snapshot of the counters.
func (a *Archive) Stats() Stats {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.store.stats()
	s.Recordings, s.Refused = len(a.recordings), a.refused.Load()
	for _, r := range a.recordings {
		s.Queued += r.queued()
	}
	return s
}
