package chunk

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"path"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
)

var (
	errDirectory = errors.New("chunk: is a directory")
	errSpecial   = errors.New("chunk: is no regular file")
)

// A descriptor is an open file that any number of responses read at the same time, each at positions of its own, together
// with what their headers say about it. A file that changes gets another one.
//
// Invariants, under descriptors.mu:
//
//	0 ≤ refs
//	it is in descriptors.byName, or forgotten
//	it is in descriptors.idle, if and only if it is opened, not forgotten, and refs = 0
type descriptor struct {
	cache *descriptors
	name  string

	opened chan struct{} // closed when what follows is known, and does not change any more
	err    error
	file   *os.File
	fd     int
	info   os.FileInfo
	stamp  stamp

	contentType  string
	lastModified string // "" if the file system has no times
	length       string
	etag         string
	siblings     []sibling // the precompressed ones that are there, in the order of preference

	checked  atomic.Int64   // Unix nanoseconds: when the name was last seen to lead to this file
	hotAt    []atomic.Int64 // Unix nanoseconds, for the first regions: when all was last known to be in the page cache
	uncached atomic.Bool    // it is never in the page cache
	sight    atomic.Int32   // a sight: how it is seen what is

	refs       int // how many are using it
	forgotten  bool
	idleSince  time.Time
	left       span        // the page cache is not to keep it when the file is closed
	prev, next *descriptor // in descriptors.idle
}

// A stamp tells versions of a file apart: whatever changes bytes changes one of these, in all file systems that keep them.
type stamp struct {
	size, mtime, ctime int64 // bytes, and nanoseconds where the file system has them
	dev, ino           uint64
}

// open opens the file. Nobody else uses d meanwhile.
func (d *descriptor) open() error {
	// Opening a pipe wakes whoever is waiting to write to it, and a device may do anything.
	info, err := d.cache.root.Stat(d.name)
	if err != nil {
		return err
	}
	if err := regular(info); err != nil {
		return err
	}
	// If it is a pipe by now, nobody must wait.
	f, err := d.cache.root.OpenFile(d.name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	if err := d.describe(f); err != nil {
		_ = f.Close()
		return err
	}
	d.checked.Store(time.Now().UnixNano())
	return nil
}

// describe looks at what was opened.
func (d *descriptor) describe(f *os.File) error {
	var err error
	if d.info, err = f.Stat(); err != nil {
		return err
	}
	if err := regular(d.info); err != nil {
		return err
	}
	d.file, d.fd, d.stamp = f, int(f.Fd()), stampOf(d.info) // one look: dates and tags are of the same version
	d.hotAt = make([]atomic.Int64, min(d.stamp.size/hotRegion+1, mostRegions))
	d.length = strconv.FormatInt(d.stamp.size, 10)
	if t := d.info.ModTime(); !isZero(t) {
		d.lastModified = t.UTC().Format(http.TimeFormat)
	}
	d.contentType = d.typeOf(d.name)
	d.siblings = d.cache.siblingsOf(d)
	d.etag, err = d.cache.tag(d)
	return err
}

// regular returns nil, or what else it is that info is of.
func regular(info os.FileInfo) error {
	switch {
	case info.IsDir():
		return errDirectory
	case !info.Mode().IsRegular():
		return errSpecial
	}
	return nil
}

// typeOf returns the media type that a file of this name has, or that its first bytes show.
func (d *descriptor) typeOf(name string) string {
	if t := mime.TypeByExtension(path.Ext(name)); t != "" {
		return t
	}
	var p [512]byte
	n, _ := d.file.ReadAt(p[:], 0) // of a file that cannot be read, no bytes show nothing
	return http.DetectContentType(p[:n])
}

// current reports whether d's name still leads to d's file, and the file is as it was. The file itself is looked at every
// time, which is cheap and also shows that its name was given to another one; for everything else the name is followed
// again, at times.
func (d *descriptor) current() bool {
	s, err := d.now()
	if err != nil || s != d.stamp {
		return false
	}
	at := time.Now().UnixNano()
	if showsRenames && at-d.checked.Load() < int64(d.cache.trust) {
		return true
	}
	info, err := d.cache.root.Stat(d.name)
	if err != nil || !os.SameFile(info, d.info) || !slices.Equal(d.siblings, d.cache.siblingsOf(d)) {
		return false
	}
	d.checked.Store(at)
	return true
}

// content returns the whole file as a reader that others do not disturb.
func (d *descriptor) content() io.Reader { return io.NewSectionReader(d.file, 0, d.stamp.size) }

// close closes the file, which nobody uses any more.
func (d *descriptor) close() {
	if d.file == nil {
		return
	}
	if d.left.to > 0 {
		d.dropSpan(d.left)
	}
	_ = d.file.Close() // it was only read
}
