// Package disk describes the part of a file system that recordings and blobs use. [Open] returns a
// directory of the operating system. Tests implement [Root] in order to record the calls and to
// make them fail.
package disk

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"runtime"
	"syscall"
	"time"
)

// A Root is an open directory. os.Root documents its methods.
type Root interface {
	Open(name string) (File, error)
	OpenFile(name string, flag int, perm fs.FileMode) (File, error)
	ReadFile(name string) ([]byte, error)
	FS() fs.FS
	Lstat(name string) (fs.FileInfo, error)
	Mkdir(name string, perm fs.FileMode) error
	MkdirAll(name string, perm fs.FileMode) error
	Rename(from, to string) error
	Remove(name string) error
	RemoveAll(name string) error
	Chmod(name string, mode fs.FileMode) error
	Chtimes(name string, atime, mtime time.Time) error
	Name() string
	Close() error
}

// A File is an open file or directory, like os.File. The files of [Open] have the type *os.File.
type File interface {
	io.ReadWriteSeeker
	io.ReaderAt
	ReadDir(n int) ([]fs.DirEntry, error)
	Readdirnames(n int) ([]string, error)
	Stat() (fs.FileInfo, error)
	Chmod(mode fs.FileMode) error
	Truncate(size int64) error
	Sync() error
	Fd() uintptr
	Close() error
}

// Open opens a directory with os.OpenRoot. The caller must close it.
func Open(dir string) (Root, error) {
	r, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return root{r}, nil
}

type root struct{ *os.Root }

func (r root) Open(name string) (File, error) { return r.OpenFile(name, os.O_RDONLY, 0) }

func (r root) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	f, err := r.Root.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err // not a File that contains a nil *os.File
	}
	return f, nil
}

// SyncDir calls fsync on a directory, which makes its new, renamed and removed names durable. It
// does nothing on systems and file systems without this operation.
func SyncDir(r Root, name string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := r.Open(name)
	if err != nil {
		return err
	}
	if err = d.Sync(); errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		err = nil
	}
	return errors.Join(err, d.Close())
}
