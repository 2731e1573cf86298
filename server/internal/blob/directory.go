package blob

import (
	"context"
	crand "crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/server/internal/lock"
)

const (
	// incoming is the directory for unfinished files. It is in the same file system as the shards,
	// so that a finished file can be renamed into a shard.
	incoming = "incoming"

	// lockName is the file that marks a directory of blobs. Every process that uses the directory
	// holds a shared lock on the file. When a process starts, it first takes the exclusive lock,
	// which proves that no other process uses the directory. A successor does not take it, because
	// it shares the directory with the process that it replaces.
	lockName = "millrace-blobs.lock"

	// namesLockName is the file that a process locks while it renames a file into a shard or
	// removes one.
	namesLockName = "millrace-blobs.names.lock"

	// shards is the number of directories that the files are spread over. It keeps the listing of
	// each directory fast.
	shards = 256

	// suffix ends every file name, so that no name has a meaning for other programs, as index.html
	// and .gitignore have.
	suffix = ".blob"

	// maxPlainName is the maximum length of a file name without suffix. Both together fit into 255
	// bytes, the limit of file systems.
	maxPlainName = 240

	// sweepInterval is the pause between the sweeps of two shards. Sweeping all shards takes four
	// minutes. An expired value is never served; it only takes space until its shard is swept.
	sweepInterval = time.Second

	// sweepNames is the number of directory entries that a sweep reads at a time.
	sweepNames = 256
)

// The permissions of a file tell whether its value expires. The modification time of an expiring
// file is the time at which it expires. Permissions and time are set before the file is renamed to
// its key's name. They survive a restart, and a backup that keeps permissions and times.
const (
	lasting  fs.FileMode = 0o600
	expiring fs.FileMode = 0o700
)

// A directory is a Store that keeps each value in a file:
//
//	millrace-blobs.lock, millrace-blobs.names.lock
//	incoming/1a2b          a value that is being written
//	00/ … ff/film.mp4.blob see fileOf
//
// A file is synced to disk before it is renamed to its key's name, and is never changed afterwards.
// The new name is on disk before Put returns.
type directory struct {
	root   *os.Root
	lock   *os.File
	blocks *millrace.Pool
	clock  func() time.Time
	serial atomic.Int64 // makes the times of all files different, see stamp

	// names is held, together with the lock on namesFile, while a file is renamed into a shard or
	// removed from one. One mutex for all shards suffices, because the kernel, too, serializes
	// renames between directories.
	names     lock.Mutex
	namesFile *os.File

	stopSweeper context.CancelFunc
	swept       chan struct{} // closed when the sweeper has ended
	expired     atomic.Int64  // number of files that the sweeper deleted
}

// OpenDirectory opens the store in the directory called name. The directory must exist, and be
// either empty or a directory of blobs. Transfers take their memory from blocks. The caller must
// call Close on the store.
//
// A successor shares the directory with the process that it replaces, because that process may
// still have transfers. Any other process needs exclusive access. It deletes the unfinished files
// that killed processes left.
func OpenDirectory(name string, successor bool, blocks *millrace.Pool) (Store, error) {
	d, err := newDirectory(name, successor, blocks)
	if err != nil {
		return nil, err
	}
	return d, nil
}

func newDirectory(name string, successor bool, blocks *millrace.Pool) (*directory, error) {
	root, err := os.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	d := &directory{root: root, blocks: blocks, clock: time.Now, swept: make(chan struct{})}
	// The serial number starts at random, so that it differs from that of another process with the
	// same directory.
	d.serial.Store(rand.Int64N(int64(time.Millisecond)))
	if err := d.prepare(successor); err != nil {
		_ = d.closeFiles()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	ctx, stop := context.WithCancel(context.Background())
	d.stopSweeper = stop
	go d.sweep(ctx)
	return d, nil
}

// prepare locks the directory and creates its files and subdirectories.
func (d *directory) prepare(successor bool) (err error) {
	if err := d.checkUnused(); err != nil {
		return err
	}
	if d.lock, err = d.root.OpenFile(lockName, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return err
	}
	if !successor {
		if err := d.clear(); err != nil {
			return err
		}
	}
	if err := flock(d.lock, shared|noWait); err != nil { // replaces the exclusive lock
		return fmt.Errorf("another process has it: %w", err)
	}
	if d.namesFile, err = d.root.OpenFile(namesLockName, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return err
	}
	if err := d.root.Mkdir(incoming, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
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

// clear takes the exclusive lock and deletes unfinished files. It fails if another process uses the
// directory.
func (d *directory) clear() error {
	if err := flock(d.lock, exclusive|noWait); err != nil {
		return fmt.Errorf("another process has it: %w", err)
	}
	return d.root.RemoveAll(incoming)
}

// checkUnused returns an error if the directory holds files of another program, because the store
// deletes files.
func (d *directory) checkUnused() error {
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
		if name != "lost+found" { // a new file system has it
			return fmt.Errorf("it is neither empty nor a directory of blobs: there is %q", name)
		}
	}
	return nil
}

// probe returns an error if the file system does not keep permissions and times to the nanosecond.
// Expiry and entity tags depend on both.
func (d *directory) probe() error {
	name := incoming + "/" + crand.Text()
	f, err := d.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, lasting)
	if err != nil {
		return err
	}
	defer func() { _ = d.root.Remove(name) }()
	defer f.Close()
	at := time.Now().Add(maxTTL).Truncate(time.Second).Add(1)
	for _, mode := range []fs.FileMode{lasting, expiring} {
		if err := errors.Join(d.root.Chmod(name, mode), d.root.Chtimes(name, at, at)); err != nil {
			return err
		}
		info, err := d.root.Lstat(name)
		if err != nil {
			return err
		}
		if info.Mode() != mode || !info.ModTime().Equal(at) {
			return errors.New(
				"its file system does not support permissions and exact times, which values need")
		}
	}
	return nil
}

// sync makes the entries of the directory name durable.
func (d *directory) sync(name string) error {
	f, err := d.root.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Close implements Store.
func (d *directory) Close() error {
	d.stopSweeper()
	<-d.swept
	return d.closeFiles()
}

func (d *directory) closeFiles() error {
	err := d.root.Close()
	for _, f := range []*os.File{d.lock, d.namesFile} {
		if f != nil {
			err = errors.Join(err, f.Close())
		}
	}
	return err
}

// lockNames locks all file names. Until unlock is called, no other goroutine and no other process
// that shares the directory changes a name.
func (d *directory) lockNames() (unlock func(), err error) {
	d.names.Lock()
	if err := flock(d.namesFile, exclusive); err != nil {
		d.names.Unlock()
		return nil, err
	}
	return func() {
		_ = flock(d.namesFile, unlocked)
		d.names.Unlock()
	}, nil
}

// A file is the location of a key's file.
type file struct {
	shard int
	path  string // relative to the root, as in "3f/film.mp4.blob"
}

// fileOf returns the location of key's file. Two keys never have the same file, even if the file
// system does not distinguish upper and lower case. The file name is the key, with every byte other
// than a-z, 0-9, "-", "_" and "." escaped, as in %2f. A "." at the start is escaped too. If that
// name would be too long, the file name is "%h" and a hash instead. Such a name is never the
// escaped form of a key.
func fileOf(key string) file {
	const digits = "0123456789abcdef"
	sum := sha256.Sum256([]byte(key))
	var name strings.Builder
	for i := 0; i < len(key) && name.Len() <= maxPlainName; i++ {
		c := key[i]
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.' &&
			i > 0 {
			name.WriteByte(c)
		} else {
			name.Write([]byte{'%', digits[c>>4], digits[c&15]})
		}
	}
	text := name.String()
	if len(text) > maxPlainName {
		text = "%h" + hex.EncodeToString(sum[:])
	}
	return file{shard: int(sum[0]), path: shardName(int(sum[0])) + "/" + text + suffix}
}

// shardName returns the name of a shard's directory.
func shardName(i int) string { return hex.EncodeToString([]byte{byte(i)}) }

// expires reports whether the file's value expires. If it does, it expires at the file's
// modification time.
func expires(info fs.FileInfo) bool { return info.Mode().Perm() == expiring }

// hasExpired reports whether a file's value has expired.
func (d *directory) hasExpired(info fs.FileInfo) bool {
	return info.Mode().IsRegular() && expires(info) && !d.clock().Before(info.ModTime())
}

// fileTag returns the entity tag of a file. Two files never have the same tag, because their times
// differ, see stamp.
func fileTag(info fs.FileInfo) string {
	return fmt.Sprintf(`"%x-%x"`, info.ModTime().UnixNano(), info.Size())
}

// Open implements Store.
func (d *directory) Open(_ context.Context, key string) (*Value, error) {
	f, err := d.root.Open(fileOf(key).path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNotFound
	} else if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && (d.hasExpired(info) || !info.Mode().IsRegular()) {
		err = ErrNotFound
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	v := &Value{Tag: fileTag(info), Content: f, blocks: d.blocks}
	if expires(info) {
		v.TTL = max(info.ModTime().Sub(d.clock()), 1)
	}
	return v, nil
}

// tagAt returns the entity tag of the value at path, or "" if there is no value.
func (d *directory) tagAt(path string) (string, error) {
	info, err := d.root.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case err != nil:
		return "", err
	case d.hasExpired(info) || !info.Mode().IsRegular():
		return "", nil
	}
	return fileTag(info), nil
}

// Put implements Store.
func (d *directory) Put(ctx context.Context, key string, body io.Reader, size int64,
	put Put) (tag string, created bool, err error) {
	if size > put.Limit {
		return "", false, &TooLargeError{put.Limit}
	}
	pending := incoming + "/" + crand.Text()
	defer func() {
		if err != nil {
			_ = d.root.Remove(pending)
			err = roomError(err)
		}
	}()
	if tag, err = d.write(ctx, pending, body, size, put); err != nil {
		return "", false, err
	}
	to := fileOf(key)
	before, err := d.rename(pending, to, put.Only)
	if err != nil {
		return "", false, err
	}
	if err := d.sync(shardName(to.shard)); err != nil {
		return "", false, fmt.Errorf("%w: %w", ErrUnsure, err)
	}
	return tag, before == "", nil
}

// write writes body to the new file pending, syncs it, and returns its entity tag.
func (d *directory) write(ctx context.Context, pending string, body io.Reader, size int64,
	put Put) (tag string, err error) {
	f, err := d.root.OpenFile(pending, os.O_WRONLY|os.O_CREATE|os.O_EXCL, lasting)
	if err != nil {
		return "", err
	}
	defer f.Close() // for the returns with an error
	src := newSource(body, size, put.Limit)
	n, err := src.copyTo(ctx, f, d.blocks)
	if err == nil && size != unknownSize && n != size {
		err = fmt.Errorf("%w: %w", ErrBody, io.ErrUnexpectedEOF)
	}
	if err = src.failure(err); err != nil {
		return "", err
	}
	mode, at := d.stamp(put.TTL)
	if err := errors.Join(f.Chmod(mode), d.root.Chtimes(pending, at, at)); err != nil {
		return "", err
	}
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	return fileTag(info), errors.Join(f.Sync(), f.Close())
}

// stamp returns the permissions and the modification time of a new file. The time is changed by
// less than two milliseconds, so that it differs from that of every other file. It must differ
// because the entity tag is made of it. A value may expire that much early, but never late.
func (d *directory) stamp(ttl time.Duration) (mode fs.FileMode, at time.Time) {
	at, mode = d.clock(), lasting
	if ttl > 0 {
		at, mode = at.Add(ttl-time.Millisecond), expiring
	}
	return mode, at.Truncate(
		time.Millisecond).Add(time.Duration(d.serial.Add(1) % int64(time.Millisecond)))
}

// rename renames the file pending to its key's name if the Condition allows the write. It returns
// the entity tag of the value that the key had before, or "".
func (d *directory) rename(pending string, to file, only Condition) (before string, err error) {
	unlock, err := d.lockNames()
	if err != nil {
		return "", err
	}
	defer unlock()
	if before, err = d.allowed(to, only); err != nil {
		return before, err
	}
	return before, d.root.Rename(pending, to.path)
}

// allowed returns the present entity tag of the file at the location to. If the Condition does not
// allow a write, it returns ErrCondition.
func (d *directory) allowed(to file, only Condition) (tag string, err error) {
	if tag, err = d.tagAt(to.path); err == nil && !only.allows(tag) {
		err = ErrCondition
	}
	return tag, err
}

// Check implements Store.
func (d *directory) Check(_ context.Context, key string, only Condition) error {
	_, err := d.allowed(fileOf(key), only)
	return err
}

// Delete implements Store.
func (d *directory) Delete(_ context.Context, key string, only Condition) error {
	at := fileOf(key)
	if err := d.remove(at, only); err != nil {
		return err
	}
	return d.sync(shardName(at.shard))
}

func (d *directory) remove(at file, only Condition) error {
	unlock, err := d.lockNames()
	if err != nil {
		return err
	}
	defer unlock()
	switch tag, err := d.allowed(at, only); {
	case err != nil:
		return err
	case tag == "":
		return ErrNotFound
	}
	return d.root.Remove(at.path)
}

// roomError returns ErrFull if err says that the file system is full or a quota is used up.
// Otherwise it returns err.
func roomError(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return ErrFull
	}
	return err
}

// sweep deletes expired files until ctx ends.
func (d *directory) sweep(ctx context.Context) {
	defer close(d.swept)
	t := time.NewTicker(sweepInterval)
	defer t.Stop()
	for i := 0; ; i = (i + 1) % shards {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		d.sweepShard(ctx, i)
	}
}

// sweepShard deletes the expired files of a shard. It skips unreadable files; the next sweep tries
// them again.
func (d *directory) sweepShard(ctx context.Context, shard int) {
	dir, err := d.root.Open(shardName(shard))
	if err != nil {
		return
	}
	defer dir.Close()
	for ctx.Err() == nil {
		entries, err := dir.ReadDir(sweepNames)
		for _, e := range entries {
			if info, err := e.Info(); err == nil && d.hasExpired(info) {
				d.sweepFile(file{shard, shardName(shard) + "/" + e.Name()})
			}
		}
		if err != nil {
			return
		}
	}
}

// sweepFile deletes a file if it has expired. It checks this again with the names locked, because
// the file may have been replaced since sweepShard looked.
func (d *directory) sweepFile(at file) {
	unlock, err := d.lockNames()
	if err != nil {
		return
	}
	defer unlock()
	if info, err := d.root.Lstat(at.path); err == nil && d.hasExpired(info) &&
		d.root.Remove(at.path) == nil {
		d.expired.Add(1)
	}
}
