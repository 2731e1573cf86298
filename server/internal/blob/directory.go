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
	"github.com/millrace-io/millrace/server/internal/disk"
	"github.com/millrace-io/millrace/server/internal/lock"
)

const (
	// incoming is the directory for files that are still being written. It is in the same file
	// system as the final directories (see shards), so that a complete file can be renamed into a
	// final directory.
	incoming = "incoming"

	// lockName is a file that marks a directory of blobs. Every process that uses the directory
	// holds a shared lock on this file.
	//
	// When a process starts, it usually takes an exclusive lock first, to prove that no other
	// process uses the directory. A successor does not take the exclusive lock, because the process
	// that it replaces may still use the directory.
	lockName = "millrace-blobs.lock"

	// namesLockName is a file that a process locks while it adds a complete file to the store or
	// removes a file.
	namesLockName = "millrace-blobs.names.lock"

	// shards is the number of directories for complete files. With many directories, reading one
	// directory is fast.
	shards = 256

	// suffix is the end of every file name. Without the suffix, a key such as index.html or
	// .gitignore could have a meaning for other programs.
	suffix = ".blob"

	// maxPlainName is the maximum length of a file name without suffix. Together with suffix, the
	// name is within the 255 bytes that file systems allow.
	maxPlainName = 240

	// sweepInterval is the time between two sweeps. Each sweep deletes the files of expired values
	// in one directory, so all directories take four minutes. An expired value is never served, but
	// its file takes space until it is deleted.
	sweepInterval = time.Second

	// sweepNames is the number of directory entries that the sweeper reads at a time.
	sweepNames = 256
)

// The permissions of a file show whether its value expires. The modification time of an expiring
// file is its expiry time. The permissions and the time are set before the file gets its final
// name. The permissions and the time survive a restart. They also survive a backup that preserves
// permissions and times.
const (
	lasting  fs.FileMode = 0o600
	expiring fs.FileMode = 0o700
)

// A directory is a Store with one file for each value:
//
//	millrace-blobs.lock          see lockName
//	millrace-blobs.names.lock    see namesLockName
//	incoming/RANDOM              a value that is being written
//	SHARD/film.mp4.blob          the value of the key film.mp4; see fileOf
//
// SHARD is one of the directories 00 to ff.
//
// A file is written in incoming, synced to disk, and then renamed. After that it is never changed.
// When Put returns, the new name is on disk.
type directory struct {
	root   disk.Root
	lock   disk.File
	blocks *millrace.Pool
	clock  func() time.Time
	serial atomic.Int64 // makes the modification time of every file different, see stamp

	// lockNames locks both names and namesFile. Both must be locked while a file gets its final
	// name or is removed. One mutex is enough for all directories, because the kernel also executes
	// renames between directories one after the other.
	names     lock.Mutex
	namesFile disk.File

	stopSweeper context.CancelFunc
	swept       chan struct{} // closed when the sweeper goroutine has ended
	expired     atomic.Int64  // number of expired files that were deleted
}

// OpenDirectory opens a store in the named directory. The directory must exist, and must be empty
// or a directory of blobs. The store takes its transfer buffers from pool. The caller must call
// Close on the store.
//
// If successor is true, this process shares the directory with the process that it replaces,
// because that process may still have running transfers. If successor is false, this process needs
// exclusive access at the start, and deletes the unfinished files of processes that were killed.
func OpenDirectory(name string, successor bool, pool *millrace.Pool) (Store, error) {
	root, err := disk.Open(name)
	if err != nil {
		return nil, err
	}
	d, err := newDirectory(root, successor, pool)
	if err != nil {
		return nil, err
	}
	return d, nil
}

// newDirectory takes ownership of root.
func newDirectory(root disk.Root, successor bool, pool *millrace.Pool) (*directory, error) {
	d := &directory{root: root, blocks: pool, clock: time.Now, swept: make(chan struct{})}
	// The serial number starts at random, so that it differs from the serial number of another
	// process that uses the directory.
	d.serial.Store(rand.Int64N(int64(time.Millisecond)))
	if err := d.prepare(successor); err != nil {
		_ = d.closeFiles()
		return nil, fmt.Errorf("%s: %w", root.Name(), err)
	}
	ctx, stop := context.WithCancel(context.Background())
	d.stopSweeper = stop
	go d.sweep(ctx)
	return d, nil
}

func (d *directory) prepare(successor bool) (err error) {
	if err := d.checkUnused(); err != nil {
		return err
	}
	if d.lock, err = d.root.OpenFile(lockName, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return err
	}
	// The lock file marks the directory as a directory of blobs, so it must be on disk first.
	if err := disk.SyncDir(d.root, "."); err != nil {
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
	if err := disk.SyncDir(d.root, "."); err != nil {
		return err
	}
	return d.probe()
}

// clear takes an exclusive lock on the directory and deletes unfinished files. It fails if another
// process uses the directory.
func (d *directory) clear() error {
	if err := flock(d.lock, exclusive|noWait); err != nil {
		return fmt.Errorf("another process has it: %w", err)
	}
	return d.root.RemoveAll(incoming)
}

// checkUnused returns an error if the directory contains files of another program. The store must
// not use such a directory, because the store deletes files.
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
		if name != "lost+found" { // exists in a new file system
			return fmt.Errorf("it is neither empty nor a directory of blobs: there is %q", name)
		}
	}
	return nil
}

// probe returns an error if the file system does not store permissions, or does not store times to
// the nanosecond. Expiry and entity tags need both.
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

// Close stops the sweeper and closes the store's files.
func (d *directory) Close() error {
	d.stopSweeper()
	<-d.swept
	return d.closeFiles()
}

func (d *directory) closeFiles() error {
	err := d.root.Close()
	for _, f := range []disk.File{d.lock, d.namesFile} {
		if f != nil {
			err = errors.Join(err, f.Close())
		}
	}
	return err
}

// lockNames locks the file names of all shards. No other goroutine, and no other process, adds or
// removes a file until unlock is called.
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

type file struct {
	shard int
	path  string // relative to the root, as in "3f/film.mp4.blob"
}

// fileOf returns the file for the value of key. Two keys never have the same file, even if the file
// system does not distinguish upper and lower case.
//
//   - Usually the file name is the key. All bytes other than a-z, 0-9, "-", "_" and "." are
//     escaped, as in %2f. A "." at the start is escaped as well.
//   - If the escaped key is longer than maxPlainName, the file name is "%h" and a hash of the key.
//     No escaped key has this form.
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

func shardName(i int) string { return hex.EncodeToString([]byte{byte(i)}) }

// expires reports whether the value in a file expires. If it does, the file's modification time is
// the expiry time.
func expires(info fs.FileInfo) bool { return info.Mode().Perm() == expiring }

func (d *directory) hasExpired(info fs.FileInfo) bool {
	return info.Mode().IsRegular() && expires(info) && !d.clock().Before(info.ModTime())
}

// fileTag returns the entity tag of a file. No two files have the same tag, because stamp gives
// each file a different modification time.
func fileTag(info fs.FileInfo) string {
	return fmt.Sprintf(`"%x-%x"`, info.ModTime().UnixNano(), info.Size())
}

// Open returns the value of key. If key has no value, or if the value has expired, Open returns
// ErrNotFound.
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

// tagAt returns the entity tag of the value at path. If there is no value, or if the value has
// expired, the tag is "".
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

// Put writes a value to a new file. If the write condition put.Only holds, it then renames the file
// to its final name. See [Store].
func (d *directory) Put(ctx context.Context, key string, body io.Reader, size int64,
	put Put) (tag string, created bool, err error) {
	if size > put.Limit {
		return "", false, &TooLargeError{put.Limit}
	}
	tmp := incoming + "/" + crand.Text()
	defer func() {
		if err != nil {
			_ = d.root.Remove(tmp)
			err = roomError(err)
		}
	}()
	if tag, err = d.write(ctx, tmp, body, size, put); err != nil {
		return "", false, err
	}
	to := fileOf(key)
	before, err := d.rename(tmp, to, put.Only)
	if err != nil {
		return "", false, err
	}
	if err := disk.SyncDir(d.root, shardName(to.shard)); err != nil {
		return "", false, fmt.Errorf("%w: %w", ErrUnsure, err)
	}
	return tag, before == "", nil
}

// write creates the file tmp, writes body to it, syncs it, and returns its entity tag.
func (d *directory) write(ctx context.Context, tmp string, body io.Reader, size int64,
	put Put) (tag string, err error) {
	f, err := d.root.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, lasting)
	if err != nil {
		return "", err
	}
	defer f.Close() // if write returns early
	src := newSource(body, size, put.Limit)
	n, err := src.copyTo(ctx, f, d.blocks)
	if err == nil && size != unknownSize && n != size {
		err = fmt.Errorf("%w: %w", ErrBody, io.ErrUnexpectedEOF)
	}
	if err = src.failure(err); err != nil {
		return "", err
	}
	mode, at := d.stamp(put.TTL)
	if err := errors.Join(f.Chmod(mode), d.root.Chtimes(tmp, at, at)); err != nil {
		return "", err
	}
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	return fileTag(info), errors.Join(f.Sync(), f.Close())
}

// stamp returns the permissions and the modification time of a new file. If ttl is positive, the
// value expires, and the modification time is the expiry time. Otherwise, the modification time is
// the current time.
//
// The modification time is part of the entity tag, so no two files may have the same modification
// time. stamp therefore changes the time by less than two milliseconds. A value may expire up to
// two milliseconds too early, but never too late.
func (d *directory) stamp(ttl time.Duration) (mode fs.FileMode, modTime time.Time) {
	modTime, mode = d.clock(), lasting
	if ttl > 0 {
		modTime, mode = modTime.Add(ttl-time.Millisecond), expiring
	}
	return mode, modTime.Truncate(
		time.Millisecond).Add(time.Duration(d.serial.Add(1) % int64(time.Millisecond)))
}

// rename renames the file tmp to target. If target already has a value, rename replaces the value
// and returns its entity tag. Otherwise it returns "". If cond does not hold, the error is
// ErrCondition.
func (d *directory) rename(tmp string, target file, cond Condition) (replaced string,
	err error) {
	unlock, err := d.lockNames()
	if err != nil {
		return "", err
	}
	defer unlock()
	if replaced, err = d.checkFile(target, cond); err != nil {
		return replaced, err
	}
	return replaced, d.root.Rename(tmp, target.path)
}

// checkFile returns the entity tag of the value in a file, or "" if there is no value or the value
// has expired. If cond does not hold for the value, the error is ErrCondition.
//
// If the caller will change the file, it must call lockNames before checkFile. Otherwise, another
// goroutine or process could change the file after the check.
func (d *directory) checkFile(f file, cond Condition) (tag string, err error) {
	if tag, err = d.tagAt(f.path); err == nil && !cond.allows(tag) {
		err = ErrCondition
	}
	return tag, err
}

// Check returns ErrCondition if cond does not hold for the present value of key.
func (d *directory) Check(_ context.Context, key string, cond Condition) error {
	_, err := d.checkFile(fileOf(key), cond)
	return err
}

// Delete deletes the value of key. If cond does not hold, it returns ErrCondition. If key has no
// value, it returns ErrNotFound.
func (d *directory) Delete(_ context.Context, key string, cond Condition) error {
	f := fileOf(key)
	if err := d.remove(f, cond); err != nil {
		return err
	}
	if err := disk.SyncDir(d.root, shardName(f.shard)); err != nil {
		return fmt.Errorf("%w: %w", ErrUnsure, err)
	}
	return nil
}

func (d *directory) remove(f file, cond Condition) error {
	unlock, err := d.lockNames()
	if err != nil {
		return err
	}
	defer unlock()
	switch tag, err := d.checkFile(f, cond); {
	case err != nil:
		return err
	case tag == "":
		return ErrNotFound
	}
	return d.root.Remove(f.path)
}

// roomError returns ErrFull if err means that the file system is full or a quota is used up, and
// that the value was not stored. Otherwise, it returns err unchanged.
func roomError(err error) error {
	full := errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
	if full && !errors.Is(err, ErrUnsure) {
		return ErrFull
	}
	return err
}

// sweep deletes the files of expired values until ctx ends. Every sweepInterval, it checks one
// shard.
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

// sweepShard deletes the files of expired values in one shard. It skips files that it cannot read.
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

// sweepFile deletes a file if it has expired. It checks the expiry again after lockNames, because
// the file may have been replaced since sweepShard checked it.
func (d *directory) sweepFile(f file) {
	unlock, err := d.lockNames()
	if err != nil {
		return
	}
	defer unlock()
	if info, err := d.root.Lstat(f.path); err == nil && d.hasExpired(info) &&
		d.root.Remove(f.path) == nil {
		d.expired.Add(1)
	}
}
