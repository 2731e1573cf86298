package record

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace/media/mp4"
	"github.com/millrace-io/millrace/server/internal/lock"
	"github.com/millrace-io/millrace/server/internal/streamname"
)

// Defaults of Config.
const (
	DefaultQueueBytes = 16 << 20
	DefaultEvery      = time.Hour
)

// lockName is the file that a process has locked while it records to the directory. No stream can have this name.
const lockName = "millrace-recordings#lock"

const (
	// lockEvery is the pause between two looks whether the process that is replaced has left the directory.
	lockEvery = 20 * time.Millisecond
	// lockLate is how long that takes before it is an error in the log. A process drains for eight seconds by default, and has
	// ended its recordings long before.
	lockLate = 20 * time.Second
)

// Errors of Archive.Stream.
var (
	ErrName   = errors.New("record: no name of a stream, or a part but the first begins like a file of a recording")
	ErrInUse  = errors.New("record: the stream is being recorded already")
	ErrClosed = errors.New("record: the archive is closed")
)

// errLocked is the error of flock if another process has the file.
var errLocked = errors.New("another process records to this directory")

// A Config says where recordings are, and how much there may be.
type Config struct {
	Dir        string        // of all recordings; it exists
	MaxBytes   int64         // of all recordings; the oldest files are deleted beyond it. 0 is no limit
	QueueBytes int64         // of one stream, that may wait for the disk. 0 is DefaultQueueBytes
	Every      time.Duration // a file ends at whole multiples of it, in UTC. 0 is DefaultEvery
	Successor  bool          // this process replaces another one, which may have the directory for a while
	Log        *slog.Logger  // nil discards

	// Admit says whether a stream is recorded: what comes meanwhile waits in the queue. end is called when the recording
	// ends that was admitted; nil: it is not recorded. After an error Admit is called again. A nil Admit admits all.
	Admit func(stream string) (end func(reason string, bytes int64), err error)

	now  func() time.Time         // of tests
	disk func(*os.File) io.Writer // of tests: what media files are written by
}

// Stats says what there is, and what has happened since Open.
type Stats struct {
	Recordings int   // that go on
	Files      int   // that have ended and are in the directory
	Bytes      int64 // of all files
	Queued     int64 // bytes that wait for the disk

	Written   int64 // bytes, of media files
	Lost      int64 // fragments that are in no file: the queue was full, or the disk failed
	LostBytes int64 // in them
	Refused   int64 // streams that are in no file: Stream returned an error
	Failures  int64 // errors of the disk
	Removed   int64 // files, because of MaxBytes
	Repaired  int   // files, by Open
}

// An Archive is a directory of recordings. Its methods are for any goroutine.
type Archive struct {
	cfg  Config
	log  *slog.Logger
	lock *os.File

	ready    chan struct{} // closed when the directory is this process's, or will not be
	waiting  context.Context
	stopWait context.CancelFunc

	mu         lock.Mutex
	closed     bool
	recordings map[string]*Recording
	files      []kept // that have ended, oldest first
	bytes      int64  // of all files
	repaired   int

	written, lost, lostBytes, refused, failures, removed atomic.Int64
}

// A kept file has ended.
type kept struct {
	stream, stamp string
	bytes         int64
}

func (k *kept) name() string { return path.Join(k.stream, k.stamp) }

// compare puts the older file first.
func (k kept) compare(o kept) int {
	return cmp.Or(strings.Compare(k.stamp, o.stamp), strings.Compare(k.stream, o.stream))
}

// Open opens a directory, which no other process may have open, and makes whole what a crash left unfinished there. It
// does not touch files whose names it would not give. The call that ends the archive's life is Close.
//
// A successor does not fail if another process has the directory. It does all this when that process has closed its
// archive. Until then recordings keep in their queues what comes.
func Open(c Config) (*Archive, error) {
	c.QueueBytes = cmp.Or(c.QueueBytes, DefaultQueueBytes)
	c.Every = cmp.Or(c.Every, DefaultEvery)
	if c.MaxBytes < 0 || c.QueueBytes < 0 || c.Every < 0 {
		return nil, errors.New("record: a limit is negative")
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.now == nil {
		c.now = time.Now
	}
	a := &Archive{cfg: c, log: lock.Logger(c.Log), recordings: make(map[string]*Recording), ready: make(chan struct{})}
	a.waiting, a.stopWait = context.WithCancel(context.Background())
	root, err := os.OpenRoot(c.Dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if a.lock, err = root.OpenFile(lockName, os.O_RDWR|os.O_CREATE, fileMode); err != nil {
		return nil, fmt.Errorf("%s: %w", c.Dir, err) // root's errors do not name it
	}
	err = flock(a.lock)
	if c.Successor && errors.Is(err, errLocked) {
		go a.await()
		return a, nil
	}
	if err == nil {
		err = a.readDir(root)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", c.Dir, err), a.lock.Close())
	}
	a.makeRoom()
	close(a.ready)
	return a, nil
}

// await opens the directory when the process that is replaced has left it, unless Close comes first.
func (a *Archive) await() {
	defer close(a.ready)
	a.log.Info("recordings wait until the process that is replaced has ended its own", "in", a.cfg.Dir)
	began := time.Now()
	late := time.AfterFunc(lockLate, func() {
		a.log.Error("recordings still wait for another process: they lose what does not fit into their queues", "in", a.cfg.Dir)
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
	var root *os.Root
	if err == nil {
		root, err = os.OpenRoot(a.cfg.Dir)
	}
	if err == nil {
		err = a.readDir(root)
		_ = root.Close()
	}
	if err != nil { // new recordings may work all the same
		a.failures.Add(1)
		a.log.Error("the recordings that are there cannot be read", "in", a.cfg.Dir, "reason", err)
	}
	a.makeRoom()
	a.log.Info("recordings are written", "in", a.cfg.Dir, "after", time.Since(began).Round(time.Millisecond))
}

// Await waits until the directory is this process's: see Config.Successor. It returns an error if ctx ends before that.
func (a *Archive) Await(ctx context.Context) error {
	select {
	case <-a.ready:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", a.cfg.Dir, errLocked)
	}
}

// Free gives up about excess bytes of what waits for the disk, for a process that is short of memory: those of recordings
// for which the disk is slow. It returns how many went.
func (a *Archive) Free(excess int64) (freed int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, r := range a.recordings {
		if freed >= excess {
			break
		}
		freed += r.shed()
	}
	return freed
}

// readDir finds the recordings in the directory.
func (a *Archive) readDir(root *os.Root) error {
	streams, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return err
	}
	for _, d := range streams {
		if err := a.readSub(root, d.Name(), d); err != nil {
			return err
		}
	}
	a.mu.Lock()
	slices.SortFunc(a.files, kept.compare)
	a.mu.Unlock()
	return nil
}

// readSub is readStream of what an entry d of a directory is, if that is the directory of a stream.
func (a *Archive) readSub(root *os.Root, stream string, d fs.DirEntry) error {
	if !d.IsDir() || checkName(stream) != nil {
		return nil
	}
	return a.readStream(root, stream)
}

// readStream finds the recordings of a stream, and of those whose names begin with its name and a slash. A recording that cannot
// be repaired is left as it is.
func (a *Archive) readStream(root *os.Root, stream string) error {
	entries, err := fs.ReadDir(root.FS(), stream)
	if err != nil {
		return err
	}
	var before string // the stamp of the file before: up to three files have the same
	for _, e := range entries {
		if err := a.readSub(root, stream+"/"+e.Name(), e); err != nil {
			return err
		}
		stamp, ext := e.Name(), ""
		if len(stamp) > len(stampFormat) {
			stamp, ext = stamp[:len(stampFormat)], stamp[len(stampFormat):]
		}
		if stamp == before || stampTime(stamp).IsZero() || !slices.Contains(extensions, ext) || !e.Type().IsRegular() {
			continue
		}
		before = stamp
		if err := a.readFile(root, kept{stream: stream, stamp: stamp}); err != nil {
			a.log.Warn("a recording cannot be repaired", "stream", stream, "file", stamp+mediaExt, "reason", err)
		}
	}
	return nil
}

// readFile adds k to the files, and finishes it before that if it is unfinished. A file that cannot be finished may still
// be deleted, unless it is none of an archive.
func (a *Archive) readFile(root *os.Root, k kept) error {
	name := k.name()
	ended, err := hasEnded(root, name)
	if ended {
		_, err = root.Lstat(name + mediaExt)
		ended = err == nil
	}
	if !ended && (err == nil || errors.Is(err, fs.ErrNotExist)) {
		if _, err = finish(root, name); errors.Is(err, mp4.ErrNotMP4) {
			return err
		} else if err == nil {
			a.mu.Lock()
			a.repaired++
			a.mu.Unlock()
			a.log.Info("an unfinished recording was ended", "stream", k.stream, "file", k.stamp+mediaExt)
		}
	}
	if k.bytes = sizeOf(root, name); k.bytes > 0 {
		a.mu.Lock()
		a.files, a.bytes = append(a.files, k), a.bytes+k.bytes
		a.mu.Unlock()
	}
	return err
}

// sizeOf returns the size of a recording, as far as that can be told.
func sizeOf(root *os.Root, name string) (bytes int64) {
	for _, ext := range extensions {
		if info, err := root.Lstat(name + ext); err == nil {
			bytes += info.Size()
		}
	}
	return bytes
}

// checkName refuses the names that streams do not have, and those whose directories could stand where another stream
// has its files.
func checkName(name string) error {
	if streamname.Check(name) != nil {
		return ErrName
	}
	for _, part := range strings.Split(name, "/")[1:] {
		if len(part) >= len(stampFormat) && !stampTime(part[:len(stampFormat)]).IsZero() {
			return ErrName
		}
	}
	return nil
}

// Stream begins to record a stream. It does not touch the disk. The call that ends the Recording's life is its Close;
// until then Stream returns ErrInUse for this name. A Recording that was closed while fragments wait for the disk may
// be returned again.
func (a *Archive) Stream(name string) (*Recording, error) {
	r, err := a.stream(name)
	if err != nil {
		a.refused.Add(1)
	}
	return r, err
}

func (a *Archive) stream(name string) (*Recording, error) {
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
		if err := r.reopen(); err != nil {
			return nil, err
		}
		return r, nil
	}
	r = newRecording(a, name)
	a.recordings[name] = r
	go r.run()
	return r, nil
}

// Close ends all recordings, and waits until they are on the disk. If ctx ends before that, Close gives up what waits
// and returns the error of ctx; the next Open repairs the files. Closing twice does nothing.
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
		select {
		case <-r.done:
			continue
		case <-ctx.Done():
		}
		for _, r := range recordings[i:] {
			r.abandon()
		}
		return ctx.Err() // the lock stays until the process ends: a write may still be under way
	}
	a.stopWait()
	select {
	case <-a.ready:
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := a.lock.Close(); !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}

// Stats returns a snapshot.
func (a *Archive) Stats() Stats {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := Stats{
		Recordings: len(a.recordings), Files: len(a.files), Bytes: a.bytes, Repaired: a.repaired,
		Written: a.written.Load(), Lost: a.lost.Load(), LostBytes: a.lostBytes.Load(),
		Refused: a.refused.Load(), Failures: a.failures.Load(), Removed: a.removed.Load(),
	}
	for _, r := range a.recordings {
		s.Queued += r.queued()
	}
	return s
}

// grow counts n bytes more, or less.
func (a *Archive) grow(n int64) {
	a.mu.Lock()
	a.bytes += n
	a.mu.Unlock()
}

// keep adds a file that has ended. counted of its bytes are counted already.
func (a *Archive) keep(k kept, counted int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.bytes += k.bytes - counted
	if k.bytes > 0 {
		i, _ := slices.BinarySearchFunc(a.files, k, kept.compare)
		a.files = slices.Insert(a.files, i, k)
	}
}

// enough reports whether a growing file of n bytes is so large that it ends at the next key frame. MaxBytes holds
// several files of each stream, so that the oldest one is a small part of it.
func (a *Archive) enough(n int64) bool {
	const files = 4
	if a.cfg.MaxBytes == 0 {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return n > a.cfg.MaxBytes/files/int64(len(a.recordings))
}

// makeRoom deletes the oldest files while there are more than MaxBytes. It reports whether those that grow are more
// than that by themselves.
func (a *Archive) makeRoom() (over bool) {
	for {
		a.mu.Lock()
		if a.cfg.MaxBytes == 0 || a.bytes <= a.cfg.MaxBytes || len(a.files) == 0 {
			over = a.cfg.MaxBytes > 0 && a.bytes > a.cfg.MaxBytes
			a.mu.Unlock()
			return over
		}
		k := a.files[0]
		a.files = slices.Delete(a.files, 0, 1)
		a.bytes -= k.bytes
		a.mu.Unlock()
		a.remove(k)
	}
}

// remove deletes a file that has ended. If that fails the file is no longer counted, until the next Open.
func (a *Archive) remove(k kept) {
	root, err := os.OpenRoot(a.cfg.Dir)
	if err == nil {
		err = remove(root, k.name())
		_ = root.Close()
	}
	if err != nil {
		a.failures.Add(1)
		a.log.Warn("an old recording cannot be deleted", "stream", k.stream, "file", k.stamp+mediaExt, "reason", err)
		return
	}
	a.removed.Add(1)
	a.log.Info("an old recording was deleted", "stream", k.stream, "file", k.stamp+mediaExt, "bytes", k.bytes)
}
