package record

import (
	"cmp"
	"errors"
	"io/fs"
	"log/slog"
	"path"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/millrace-io/millrace/media/mp4"
	"github.com/millrace-io/millrace/server/internal/disk"
	"github.com/millrace-io/millrace/server/internal/lock"
)

// A store lists and counts the ended files of an Archive, and deletes the oldest. Its methods may
// be called from any goroutine.
type store struct {
	cfg *Config
	log *slog.Logger

	recordings atomic.Int64 // number of recordings in progress, which share Config.MaxBytes

	mu       lock.Mutex
	files    []finishedFile // ended files, oldest first
	bytes    int64          // size of all files
	repaired int

	written, lost, lostBytes, hidden, failures, removed atomic.Int64
}

// A finishedFile is a finished recording: a media file and its playlist.
type finishedFile struct {
	stream, stamp string
	bytes         int64
}

func (k *finishedFile) name() string { return path.Join(k.stream, k.stamp) }

// compare orders files by age, oldest first.
func (k finishedFile) compare(o finishedFile) int {
	return cmp.Or(strings.Compare(k.stamp, o.stamp), strings.Compare(k.stream, o.stream))
}

func (s *store) readDir(root disk.Root) error {
	streams, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return err
	}
	for _, d := range streams {
		if err := s.readSub(root, d.Name(), d); err != nil {
			return err
		}
	}
	s.mu.Lock()
	slices.SortFunc(s.files, finishedFile.compare)
	s.mu.Unlock()
	return nil
}

func (s *store) readSub(root disk.Root, stream string, d fs.DirEntry) error {
	if !d.IsDir() || checkName(stream) != nil {
		return nil
	}
	return s.readStream(root, stream)
}

// readStream adds the recordings of a stream to the list of files. It also adds the recordings of
// all streams with names that begin with this stream's name and a slash. readStream tries to finish
// unfinished recordings. If it cannot finish a recording, it leaves the recording unchanged.
func (s *store) readStream(root disk.Root, stream string) error {
	entries, err := fs.ReadDir(root.FS(), stream)
	if err != nil {
		return err
	}
	var before string // the stamp of the previous file; up to three files have the same stamp
	for _, e := range entries {
		if err := s.readSub(root, stream+"/"+e.Name(), e); err != nil {
			return err
		}
		stamp, ext := e.Name(), ""
		if len(stamp) > len(stampFormat) {
			stamp, ext = stamp[:len(stampFormat)], stamp[len(stampFormat):]
		}
		if stamp == before || stampTime(stamp).IsZero() || !slices.Contains(extensions, ext) ||
			!e.Type().IsRegular() {
			continue
		}
		before = stamp
		if err := s.readFile(root, finishedFile{stream: stream, stamp: stamp}); err != nil {
			s.log.Warn("a recording cannot be repaired", "stream", stream, "file", stamp+mediaExt,
				"reason", err)
		}
	}
	return nil
}

// readFile adds a recording to the list of files. If the recording is unfinished, readFile first
// tries to finish it.
//
// If this package did not write the unfinished media file, readFile returns mp4.ErrNotMP4 and does
// not add the recording, so that the file is never deleted. If another error occurs, readFile adds
// the recording and returns the error. The recording may then be deleted to make room.
func (s *store) readFile(root disk.Root, k finishedFile) error {
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
			s.mu.Lock()
			s.repaired++
			s.mu.Unlock()
			s.log.Info("an unfinished recording was ended", "stream", k.stream, "file",
				k.stamp+mediaExt)
		}
	}
	if ended { // a crash may have left the new playlist under both names
		_ = root.Remove(name + newListExt)
	}
	if k.bytes = sizeOf(root, name); k.bytes > 0 {
		s.mu.Lock()
		s.files, s.bytes = append(s.files, k), s.bytes+k.bytes
		s.mu.Unlock()
	}
	return err
}

// sizeOf returns the total size of a recording's files. It ignores errors.
func sizeOf(root disk.Root, name string) (bytes int64) {
	for _, ext := range extensions {
		if info, err := root.Lstat(name + ext); err == nil {
			bytes += info.Size()
		}
	}
	return bytes
}

// Stats describes the recordings in the directory, and counts events since Open.
type Stats struct {
	Recordings int   // recordings in progress
	Files      int   // ended files in the directory
	Bytes      int64 // size of all files
	Queued     int64 // bytes that wait for the disk

	Written   int64 // bytes written to media files
	Lost      int64 // fragments not recorded, because the queue was full or the disk failed
	LostBytes int64 // size of the lost fragments
	Hidden    int64 // frames that players do not see, because their times are before their file
	Refused   int64 // streams that were not recorded, because Stream returned an error
	Failures  int64 // disk errors
	Removed   int64 // files that were deleted because of MaxBytes
	Repaired  int   // files that Open has repaired
}

func (s *store) stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Stats{
		Files: len(s.files), Bytes: s.bytes, Repaired: s.repaired,
		Written: s.written.Load(), Lost: s.lost.Load(), LostBytes: s.lostBytes.Load(),
		Hidden:   s.hidden.Load(),
		Failures: s.failures.Load(), Removed: s.removed.Load(),
	}
}

func (s *store) countLost(fragments, bytes int) {
	s.lost.Add(int64(fragments))
	s.lostBytes.Add(int64(bytes))
}

func (s *store) grow(n int64) {
	s.mu.Lock()
	s.bytes += n
	s.mu.Unlock()
}

// addFile adds an ended recording to the list of files. The argument n is the number of bytes of
// the recording that s.bytes already includes.
func (s *store) addFile(k finishedFile, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bytes += k.bytes - n
	if k.bytes > 0 {
		i, _ := slices.BinarySearchFunc(s.files, k, finishedFile.compare)
		s.files = slices.Insert(s.files, i, k)
	}
}

// mustEnd reports whether a growing file of n bytes is large enough that it must end at the next
// keyframe. The maximum size leaves room for several files of each stream within maxBytes. Deleting
// the oldest file then removes only a small part of the recordings.
func (s *store) mustEnd(n int64) bool {
	const files = 4
	if s.cfg.MaxBytes == 0 {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return n > s.cfg.MaxBytes/files/s.recordings.Load()
}

// makeRoom deletes the oldest files until all files together no longer exceed maxBytes. It returns
// true if the growing files alone exceed maxBytes.
func (s *store) makeRoom() (over bool) {
	for {
		s.mu.Lock()
		if s.cfg.MaxBytes == 0 || s.bytes <= s.cfg.MaxBytes || len(s.files) == 0 {
			over = s.cfg.MaxBytes > 0 && s.bytes > s.cfg.MaxBytes
			s.mu.Unlock()
			return over
		}
		k := s.files[0]
		s.files = slices.Delete(s.files, 0, 1)
		s.bytes -= k.bytes
		s.mu.Unlock()
		s.remove(k)
	}
}

// remove deletes the files of a recording. If the deletion fails, the recording does not count
// toward s.cfg.MaxBytes until the next Open.
func (s *store) remove(k finishedFile) {
	root, err := s.cfg.open(s.cfg.Dir)
	if err == nil {
		err = remove(root, k.name())
		_ = root.Close()
	}
	if err != nil {
		s.failures.Add(1)
		s.log.Warn("an old recording cannot be deleted", "stream", k.stream, "file",
			k.stamp+mediaExt, "reason", err)
		return
	}
	s.removed.Add(1)
	s.log.Info("an old recording was deleted", "stream", k.stream, "file", k.stamp+mediaExt,
		"bytes", k.bytes)
}
