package record

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/media/mp4"
	"github.com/millrace-io/millrace/server/internal/disk"
)

// errRemoved means that the media file of a recording was removed or replaced. The recording then
// stops, because a file without a name cannot be found.
var errRemoved = errors.New("the file was removed or replaced")

// pageSize is the size of a page in the kernel's file cache, in bytes. A program that reads a file
// during a write may see some of the written pages before the others.
const pageSize = 4096

// A file is a recording that grows. Only the writer goroutine of its Recording uses it.
type file struct {
	// The archive's directory. It is opened again for each file, because the directory may be
	// replaced.
	root   disk.Root
	name   string // path below root, without an extension
	period time.Time
	media  disk.File
	list   disk.File // nil before the first segment has ended
	movie  mp4.Movie
	base   time.Duration // stream time at the beginning of the file

	pending millrace.Chain // bytes that are not written yet
	// Size of the init segment, and offset of the next fragment.
	init, next int64
	listSize   int64
	fragments  int // number of fragments in pending
	segments   segmenter
	done       []segment // ended segments that are not in the playlist yet
	text       []byte    // reused memory for entries of the playlist
}

// size returns the number of written bytes, including the playlist.
func (f *file) size() int64 { return f.next - int64(f.pending.Len()) + f.listSize }

// createFile creates a media file for a stream, and writes the init segment to it. createFile
// borrows init. The argument start is the time at which the first fragment arrived, and base is the
// timestamp of the earliest sample in the stream.
func createFile(cfg *Config, stream string, start time.Time, base time.Duration,
	init *millrace.Chain) (*file, error) {
	movie, err := mp4.ReadMovie(init.Bytes())
	if err != nil {
		return nil, err
	}
	root, err := cfg.open(cfg.Dir)
	if err != nil {
		return nil, err
	}
	f := &file{root: root, period: start.Truncate(cfg.Every), init: int64(init.Len()),
		next:  int64(init.Len()),
		movie: movie, base: base}
	for range 3 { // another writer may delete the empty directory in between
		if err = f.create(stream, start); !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	if err != nil {
		_ = root.Close()
		return nil, err
	}
	var share millrace.Chain
	init.CloneTo(&share)
	err = writeTo(&share, f.media)
	share.Release()
	if err != nil {
		_ = remove(root, f.name) // if this fails, the next Open removes the file
		f.close()
		return nil, err
	}
	return f, nil
}

// create creates the media file. It chooses a name that sorts after all other names of the stream,
// even if the clock was set back.
func (f *file) create(stream string, at time.Time) error {
	if err := f.root.MkdirAll(stream, dirMode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	others, err := fs.ReadDir(f.root.FS(), stream)
	if err != nil {
		return err
	}
	at = at.UTC().Truncate(time.Millisecond)
	for _, o := range others {
		if t := stampTime(strings.TrimSuffix(o.Name(), mediaExt)); !at.After(t) {
			at = t.Add(time.Millisecond)
		}
	}
	f.name = path.Join(stream, at.Format(stampFormat))
	f.media, err = f.root.OpenFile(f.name+mediaExt, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	return err
}

// add moves the fragment e from the beginning of c to f.pending. It returns the number of frames
// that it has hidden from players, because they are earlier than the beginning of the file.
func (f *file) add(e mp4.FragmentInfo, at time.Time, c *millrace.Chain) (hidden int) {
	hidden = f.movie.AppendEarlier(&f.pending, c, e, f.base)
	e.Start, e.End = e.Start-f.base, e.End-f.base
	if g, ok := f.segments.add(e, at, f.next); ok {
		f.done = append(f.done, g)
	}
	f.next += int64(e.Size)
	f.fragments++
	return hidden
}

// write writes the pending fragments, and then the playlist entries of the complete segments.
func (f *file) write() error {
	defer f.pending.Release()
	if err := writeTo(&f.pending, f.media); err != nil {
		return err
	}
	f.fragments = 0
	if len(f.done) == 0 {
		return nil
	}
	if err := f.checkName(); err != nil {
		return err
	}
	return f.writeEntries()
}

// checkName returns an error if the media file was removed or replaced.
func (f *file) checkName() error {
	named, err := f.root.Lstat(f.name + mediaExt)
	if err != nil {
		return err
	}
	open, err := f.media.Stat()
	if err != nil {
		return err
	}
	if !os.SameFile(named, open) {
		return errRemoved
	}
	return nil
}

func (f *file) writeEntries() (err error) {
	media := path.Base(f.name) + mediaExt
	f.text = f.text[:0]
	if f.list == nil {
		f.list, err = f.root.OpenFile(f.name+listExt, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
		if err != nil {
			return err
		}
		f.text = append(f.text, listHeader(growing, media, f.init, f.segments.target)...)
	}
	for _, g := range f.done {
		before := len(f.text)
		f.text = g.appendEntry(f.text, media)
		// Keep each playlist entry within one page of the file. A page has pageSize bytes. A
		// program that reads the playlist during a write may see only some of the written pages,
		// and would otherwise read an incomplete entry. If an entry would cross the end of a page,
		// blank lines move it to the next page.
		if n := len(f.text) - before; before > 0 || f.listSize > 0 {
			at := int(f.listSize+int64(before)) % pageSize
			if at+n > pageSize {
				f.text = append(f.text[:before], bytes.Repeat([]byte("\n"), pageSize-at)...)
				f.text = g.appendEntry(f.text, media)
			}
		}
	}
	f.done = f.done[:0]
	n, err := f.list.Write(f.text)
	f.listSize += int64(n)
	return err
}

// close closes the media file and the playlist. It does not complete the recording.
func (f *file) close() {
	f.pending.Release()
	_ = f.media.Close()
	if f.list != nil {
		_ = f.list.Close()
	}
	_ = f.root.Close()
}
