// Package disktest records how a program changes a directory, makes its calls fail, and computes
// which files a crash of the machine may leave.
//
//	Disk ──▶ disk.Root, disk.File ──▶ a directory
//	  └──▶ operations ──▶ Crash(n) ──▶ State ──▶ another directory
//
// A State has all operations that were made durable, by fsync or by Writeback. Of the later
// operations it has an arbitrary part:
//
//   - Each new, renamed or removed name is there or not, independently of the others. A rename is
//     atomic, but the old name may stay as a second name of the file.
//   - Each block of a file has the bytes of any moment since the last fsync. A block that was never
//     written has zeros.
//   - The size of a file is any size between the smallest and the largest one since the last fsync.
//   - Permissions and times have a value of any moment since the last fsync.
package disktest

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/millrace-io/millrace/server/internal/disk"
)

type kind int

const (
	link      kind = iota // node gets a name, after it was created
	unlink                // node loses its name
	rename                // node gets the name to instead of name
	write                 // data is written at offset size
	truncate              // the size of node changes
	attribute             // the permissions or the time of node change
	fsync                 // of node
	writeback             // of everything
)

// An entry is a name in a directory.
type entry struct {
	dir  int // node of the directory
	name string
}

type operation struct {
	kind     kind
	node     int
	name, to entry
	data     []byte
	size     int64
	mode     fs.FileMode // permissions; 0: unchanged
	at       time.Time   // modification time; zero: unchanged
	group    int         // writes of one group are made durable together; see Disk.Note
	isDir    bool
}

// A Disk records the changes of a directory. Its methods may be called from any goroutine.
type Disk struct {
	dir string

	mu         sync.Mutex
	nodes      map[string]int  // by path; the directory itself is 0
	dirs       map[string]bool // the paths of directories
	created    []string        // the first path of each node
	operations []operation
	group      int
	files      int // open files

	calls     int
	from, end int // calls that fail
	err       error
	short     bool
}

// New returns a Disk of an empty directory.
func New(dir string) *Disk {
	return &Disk{dir: dir, nodes: map[string]int{".": 0},
		dirs: map[string]bool{".": true}, created: []string{"."}, group: 1}
}

// Dir returns the name of the directory.
func (d *Disk) Dir() string { return d.dir }

// Open opens the directory. The argument is ignored, so that Open can replace disk.Open.
func (d *Disk) Open(string) (disk.Root, error) {
	if err := d.begin(); err != nil {
		return nil, &fs.PathError{Op: "open", Path: d.dir, Err: err}
	}
	r, err := disk.Open(d.dir)
	if err != nil {
		return nil, err
	}
	d.count(1)
	return &root{Root: r, d: d}, nil
}

// Len returns the number of operations so far.
func (d *Disk) Len() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.operations)
}

// Names returns the paths of all files in order, without directories.
func (d *Disk) Names() (names []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for name := range d.nodes {
		if !d.isDir(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (d *Disk) isDir(name string) bool {
	_, ok := d.nodes[name]
	return ok && d.dirs[name]
}

// Written returns all bytes that were written to each file, by the name under which the file was
// created. It includes files that were truncated, renamed or removed later. It requires that each
// file was written from its beginning to its end, and that no two files were created under the same
// name.
func (d *Disk) Written() map[string][]byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := make(map[string][]byte)
	for _, o := range d.operations {
		if o.kind == write {
			all[d.created[o.node]] = append(all[d.created[o.node]], o.data...)
		}
	}
	return all
}

// Note ends a group of writes, and returns the number of operations so far. A file system makes
// writes of one group durable together if they are in one block. Writes with another operation
// between them are never in one group.
func (d *Disk) Note() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.group++
	return len(d.operations)
}

// Writeback makes all operations so far durable, as the kernel does after some time.
func (d *Disk) Writeback() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.add(operation{kind: writeback})
}

// Fail makes n calls fail with err: the calls after the next k calls. If short is set, a write that
// fails writes a part of its bytes. All calls except locks and seeks count.
func (d *Disk) Fail(k, n int, err error, short bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.from, d.end = d.calls+k, d.calls+k+n
	d.err, d.short = err, short
}

// Calls returns the number of calls so far.
func (d *Disk) Calls() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.calls
}

// Opened returns the number of files and directories that are open.
func (d *Disk) Opened() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.files
}

func (d *Disk) count(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.files += n
}

// begin counts a call, and returns the error with which the call is to fail.
func (d *Disk) begin() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.fails()
}

func (d *Disk) fails() error {
	d.calls++
	if d.calls > d.from && d.calls <= d.end {
		return d.err
	}
	return nil
}

// add records an operation. The caller must hold d.mu.
func (d *Disk) add(o operation) {
	if n := len(d.operations); n > 0 && d.operations[n-1].kind != write {
		d.group++
	}
	o.group = d.group
	d.operations = append(d.operations, o)
}

func (d *Disk) entry(name string) entry { return entry{d.nodes[path.Dir(name)], path.Base(name)} }

func (d *Disk) link(name string, isDir bool, mode fs.FileMode) (node int) {
	node = len(d.created)
	d.created = append(d.created, name)
	d.nodes[name], d.dirs[name] = node, isDir
	d.add(operation{kind: link, node: node, name: d.entry(name), isDir: isDir, mode: mode})
	return node
}

func (d *Disk) unlink(name string) {
	d.add(operation{kind: unlink, node: d.nodes[name], name: d.entry(name)})
	delete(d.nodes, name)
}

// A root is a disk.Root that records and fails.
type root struct {
	disk.Root
	d *Disk
}

// change makes a call that changes the directory. If it succeeds, record is called.
func (r *root) change(op, name string, call func() error, record func()) error {
	r.d.mu.Lock()
	defer r.d.mu.Unlock()
	if err := r.d.fails(); err != nil {
		return &fs.PathError{Op: op, Path: name, Err: err}
	}
	if err := call(); err != nil {
		return err
	}
	record()
	return nil
}

func (r *root) read(op, name string) error {
	if err := r.d.begin(); err != nil {
		return &fs.PathError{Op: op, Path: name, Err: err}
	}
	return nil
}

func (r *root) Open(name string) (disk.File, error) { return r.OpenFile(name, os.O_RDONLY, 0) }

func (r *root) OpenFile(name string, flag int, perm fs.FileMode) (disk.File, error) {
	name = path.Clean(name)
	f := &file{d: r.d, name: name}
	err := r.change("open", name, func() error {
		opened, err := r.Root.OpenFile(name, flag, perm)
		f.File = opened
		return err
	}, func() {
		r.d.files++
		node, ok := r.d.nodes[name]
		if !ok {
			node = r.d.link(name, false, perm)
		} else if flag&os.O_TRUNC != 0 {
			r.d.add(operation{kind: truncate, node: node})
		}
		f.node = node
	})
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (r *root) ReadFile(name string) ([]byte, error) {
	if err := r.read("open", name); err != nil {
		return nil, err
	}
	return r.Root.ReadFile(name)
}

func (r *root) Lstat(name string) (fs.FileInfo, error) {
	if err := r.read("lstat", name); err != nil {
		return nil, err
	}
	return r.Root.Lstat(name)
}

func (r *root) FS() fs.FS { return dirFS{r.Root.FS(), r} }

type dirFS struct {
	fs.FS
	root *root
}

func (f dirFS) ReadDir(name string) ([]fs.DirEntry, error) {
	if err := f.root.read("readdir", name); err != nil {
		return nil, err
	}
	return fs.ReadDir(f.FS, name)
}

func (r *root) Mkdir(name string, perm fs.FileMode) error {
	return r.change("mkdir", name, func() error { return r.Root.Mkdir(name, perm) },
		func() { r.d.link(name, true, perm) })
}

func (r *root) MkdirAll(name string, perm fs.FileMode) error {
	if _, err := r.Root.Lstat(name); err == nil {
		return nil
	}
	if dir := path.Dir(name); dir != "." {
		if err := r.MkdirAll(dir, perm); err != nil {
			return err
		}
	}
	if err := r.Mkdir(name, perm); !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

func (r *root) Rename(from, to string) error {
	return r.change("rename", from, func() error { return r.Root.Rename(from, to) }, func() {
		node := r.d.nodes[from]
		r.d.add(operation{kind: rename, node: node, name: r.d.entry(from), to: r.d.entry(to)})
		delete(r.d.nodes, from)
		r.d.nodes[to] = node
	})
}

func (r *root) Remove(name string) error {
	return r.change("remove", name, func() error { return r.Root.Remove(name) },
		func() { r.d.unlink(name) })
}

func (r *root) RemoveAll(name string) error {
	children, err := fs.ReadDir(r.Root.FS(), name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if errors.Is(err, syscall.ENOTDIR) {
		return r.Remove(name)
	} else if err != nil {
		return err
	}
	for _, c := range children {
		if err := r.RemoveAll(path.Join(name, c.Name())); err != nil {
			return err
		}
	}
	return r.Remove(name)
}

func (r *root) Chmod(name string, mode fs.FileMode) error {
	return r.change("chmod", name, func() error { return r.Root.Chmod(name, mode) }, func() {
		r.d.add(operation{kind: attribute, node: r.d.nodes[name], mode: mode})
	})
}

func (r *root) Chtimes(name string, atime, mtime time.Time) error {
	return r.change("chtimes", name, func() error { return r.Root.Chtimes(name, atime, mtime) },
		func() { r.d.add(operation{kind: attribute, node: r.d.nodes[name], at: mtime}) })
}

func (r *root) Close() error {
	err := r.Root.Close()
	if err == nil {
		r.d.count(-1)
	}
	return err
}

// A file is a disk.File that records and fails.
type file struct {
	disk.File
	d    *Disk
	name string
	node int
	at   int64 // where the next Write writes
}

func (f *file) change(op string, call func() error, o operation) error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if err := f.d.fails(); err != nil {
		return &fs.PathError{Op: op, Path: f.name, Err: err}
	}
	if err := call(); err != nil {
		return err
	}
	o.node = f.node
	f.d.add(o)
	return nil
}

func (f *file) read(op string) error {
	if err := f.d.begin(); err != nil {
		return &fs.PathError{Op: op, Path: f.name, Err: err}
	}
	return nil
}

func (f *file) Write(p []byte) (n int, err error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	failed := f.d.fails()
	if failed != nil {
		failed = &fs.PathError{Op: "write", Path: f.name, Err: failed}
		if !f.d.short {
			return 0, failed
		}
		p = p[:len(p)/2]
	}
	if n, err = f.File.Write(p); n > 0 {
		f.d.add(operation{kind: write, node: f.node, data: append([]byte(nil), p[:n]...),
			size: f.at})
		f.at += int64(n)
	}
	return n, errors.Join(failed, err)
}

func (f *file) Truncate(size int64) error {
	return f.change("truncate", func() error { return f.File.Truncate(size) },
		operation{kind: truncate, size: size})
}

func (f *file) Chmod(mode fs.FileMode) error {
	return f.change("chmod", func() error { return f.File.Chmod(mode) },
		operation{kind: attribute, mode: mode})
}

// Sync does not wait for the disk.
func (f *file) Sync() error {
	return f.change("sync", func() error { return nil }, operation{kind: fsync})
}

func (f *file) Read(p []byte) (int, error) {
	if err := f.read("read"); err != nil {
		return 0, err
	}
	return f.File.Read(p)
}

func (f *file) ReadAt(p []byte, offset int64) (int, error) {
	if err := f.read("read"); err != nil {
		return 0, err
	}
	return f.File.ReadAt(p, offset)
}

func (f *file) ReadDir(n int) ([]fs.DirEntry, error) {
	if err := f.read("readdir"); err != nil {
		return nil, err
	}
	return f.File.ReadDir(n)
}

func (f *file) Readdirnames(n int) ([]string, error) {
	if err := f.read("readdir"); err != nil {
		return nil, err
	}
	return f.File.Readdirnames(n)
}

func (f *file) Stat() (fs.FileInfo, error) {
	if err := f.read("stat"); err != nil {
		return nil, err
	}
	return f.File.Stat()
}

// Close always closes the file, even if it is to fail.
func (f *file) Close() error {
	failed := f.read("close")
	err := f.File.Close()
	if err != nil {
		return err
	}
	f.d.count(-1)
	return failed
}
