package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace/chunk"
)

const (
	// incoming is the directory for files that are not whole yet. It is in the same file system as all others, so that
	// they can be renamed.
	incoming = "incoming"

	// lockName is the file that shows that the directory is a Directory's, and that a process has it.
	lockName = "millrace-blobs.lock"

	// openFiles is half of the descriptors that a process may have where nobody has raised the limit (1024), less as many
	// for /files/.
	openFiles = 128
)

// The permissions of a file say whether its value expires; if so, its time of change says when. So both come into being
// with the file, in one step, and survive whatever the file survives: a restart, and a backup that keeps times.
const (
	lasting  fs.FileMode = 0o600
	expiring fs.FileMode = 0o700
)

// A Directory is a Store that has a file for each value:
//
//	millrace-blobs.lock
//	incoming/1a2b          what is being written
//	00/ … ff/film.mp4.blob see placeOf
//
// A file that has its key's name is never written to again. It is on the disk before it gets that name, and its name is
// on the disk before Put returns.
type Directory struct {
	root    *os.Root
	lock    *os.File
	handler *chunk.FileHandler
	clock   func() time.Time
	serial  atomic.Int64 // makes the times of two files differ, see stamp

	writing [shards]sync.Mutex // held while a name in the shard is given to a file, or taken from one

	sweeping context.CancelFunc
	swept    chan struct{} // closed when the janitor has ended
	expired  atomic.Int64  // files that it has deleted
}

// OpenDirectory opens the store in the directory of that name, which must be there, be empty or a Directory's, and
// belong to no other process. Anything left unfinished by processes that were killed is deleted. The call that ends the
// Directory's life is Close.
func OpenDirectory(name string) (*Directory, error) {
	root, err := os.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	d := &Directory{root: root, clock: time.Now, swept: make(chan struct{})}
	if err := d.prepare(); err != nil {
		_ = root.Close()
		if d.lock != nil {
			_ = d.lock.Close()
		}
		return nil, err
	}
	d.handler = chunk.FileServer(root,
		chunk.StatETags(), chunk.Listing(false), chunk.OpenFiles(openFiles),
		chunk.TrustNames(0)) // whoever has put a value gets that one, even on file systems with coarse clocks
	ctx, stop := context.WithCancel(context.Background())
	d.sweeping = stop
	go d.sweep(ctx)
	return d, nil
}

// prepare takes the directory for this process, and makes it what it should be.
func (d *Directory) prepare() (err error) {
	if err := d.vacant(); err != nil {
		return err
	}
	if d.lock, err = d.root.OpenFile(lockName, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return err
	}
	if err := flock(d.lock); err != nil {
		return fmt.Errorf("another process has it: %w", err)
	}
	if err := d.root.RemoveAll(incoming); err != nil {
		return err
	}
	if err := d.root.Mkdir(incoming, 0o700); err != nil {
		return err
	}
	for i := range shards {
		if err := d.root.Mkdir(shardName(i), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	if err := d.sync("."); err != nil {
		return err
	}
	return d.probe()
}

// vacant returns an error if the directory is in use for something else: things are going to be deleted in it.
func (d *Directory) vacant() error {
	if _, err := d.root.Lstat(lockName); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := d.root.Open(".")
	if err != nil {
		return err
	}
	defer f.Close()
	names, err := f.Readdirnames(2)
	if err != nil && err != io.EOF {
		return err
	}
	for _, name := range names {
		if name != "lost+found" { // of a new file system
			return fmt.Errorf("it is neither empty nor a directory of blobs: there is %q", name)
		}
	}
	return nil
}

// probe finds out whether the file system keeps what tells when a value expires.
func (d *Directory) probe() error {
	const name = incoming + "/probe"
	f, err := d.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, lasting)
	if err != nil {
		return err
	}
	defer func() { _ = d.root.Remove(name) }()
	defer f.Close()
	at := time.Now().Add(MaxTTL).Truncate(time.Second)
	for _, mode := range []fs.FileMode{lasting, expiring} {
		if err := errors.Join(d.root.Chmod(name, mode), d.root.Chtimes(name, at, at)); err != nil {
			return err
		}
		info, err := d.root.Lstat(name)
		if err != nil {
			return err
		}
		if info.Mode() != mode || !info.ModTime().Equal(at) {
			return errors.New("its file system does not keep permissions and times, by which values expire")
		}
	}
	return nil
}

// sync makes the names in a directory durable.
func (d *Directory) sync(name string) error {
	f, err := d.root.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Close implements Store.
func (d *Directory) Close() error {
	d.sweeping()
	<-d.swept
	return errors.Join(d.handler.Close(), d.root.Close(), d.lock.Close())
}

// Sent implements Store.
func (d *Directory) Sent() chunk.Report { return d.handler.Stats().Sent }

// look returns how long the value at a path is there, 0 if for ever, or ErrNotFound.
func (d *Directory) look(path string) (left time.Duration, err error) {
	info, err := d.root.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return 0, ErrNotFound
	case err != nil:
		return 0, err
	case !expires(info):
		return 0, nil
	}
	if left = info.ModTime().Sub(d.clock()); left <= 0 {
		return 0, ErrNotFound
	}
	return left, nil
}

// expires reports whether the time of a file is that at which its value expires.
func expires(info fs.FileInfo) bool { return info.Mode().Perm() == expiring }

// Serve implements Store.
func (d *Directory) Serve(w http.ResponseWriter, r *http.Request, key string) error {
	path := placeOf(key).path
	left, err := d.look(path)
	if err != nil {
		return err
	}
	describe(w.Header(), left)
	asked := *r
	asked.Header = conditions(r.Header)
	d.handler.ServeFile(undated{w}, &asked, path)
	return nil
}

// undated takes the date of a file away from an answer. It changes no body, and can be unwrapped.
type undated struct{ http.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (w undated) WriteHeader(status int) {
	w.Header().Del("Last-Modified")
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController, and for chunk.
func (w undated) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// tag returns the entity tag of the value at a path, as Serve has it, "" if there is none.
func (d *Directory) tag(path string) (string, error) {
	if _, err := d.look(path); err == ErrNotFound {
		return "", nil
	} else if err != nil {
		return "", err
	}
	return d.served(path)
}

// served returns the entity tag of the file at a path, whether its value has expired or not, and "" if there is none.
// When it is asked for a file that was replaced or deleted, the handler lets go of the old one, so that the disk gets
// its room back.
func (d *Directory) served(path string) (string, error) {
	a := headOnly{header: make(http.Header)}
	d.handler.ServeFile(&a, &http.Request{Method: http.MethodHead, Header: make(http.Header), ProtoMajor: 1}, path)
	switch a.status {
	case http.StatusOK:
		return a.header.Get("Etag"), nil
	case http.StatusNotFound:
		return "", nil
	}
	return "", fmt.Errorf("%s: %s", path, http.StatusText(a.status))
}

// headOnly is an answer of which only the head is wanted.
type headOnly struct {
	header http.Header
	status int
}

func (a *headOnly) Header() http.Header         { return a.header }
func (a *headOnly) WriteHeader(status int)      { a.status = status }
func (a *headOnly) Write(p []byte) (int, error) { return len(p), nil }
