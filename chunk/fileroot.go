package chunk

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
)

var (
	errDirectory = errors.New("chunk: is a directory")
	errSpecial   = fmt.Errorf("chunk: not served: %w", fs.ErrPermission)
)

// A fileRoot is the directory of the served files. No name or link leads out of it.
type fileRoot struct{ *os.Root }

// open opens a regular file. The caller closes it. If name is a directory, the error is
// errDirectory.
func (d fileRoot) open(name string) (*os.File, os.FileInfo, error) {
	// Check before opening: opening a pipe wakes the process that waits to write to it, and opening
	// a device may have any effect.
	info, err := d.Root.Stat(name)
	if err == nil {
		err = checkRegular(info)
	}
	if err != nil {
		return nil, nil, err
	}
	f, err := d.Root.OpenFile(name, os.O_RDONLY|nonblock, 0) // it may be a pipe now
	if err != nil {
		return nil, nil, err
	}
	if info, err = f.Stat(); err == nil {
		err = checkRegular(info)
	}
	if err != nil {
		_ = f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

func checkRegular(info os.FileInfo) error {
	switch {
	case info.IsDir():
		return errDirectory
	case !info.Mode().IsRegular():
		return errSpecial
	}
	return nil
}

// openedFiles is an http.FileSystem of the regular files and directories under the root. An
// http.FileServer uses it to redirect requests and to list directories.
type openedFiles struct{ fileRoot }

// Open opens the file or directory with the given path, which begins with a slash.
func (o openedFiles) Open(name string) (http.File, error) {
	f, _, err := o.fileRoot.open(rootName(name))
	if err == errDirectory {
		f, err = o.Root.Open(rootName(name))
	}
	if err != nil {
		return nil, standardError(err)
	}
	return f, nil
}

// rootName converts a clean path that begins with a slash to a name within the root.
func rootName(clean string) string {
	if clean == "/" {
		return "."
	}
	return clean[1:]
}

// standardError returns fs.ErrNotExist or fs.ErrPermission if net/http should answer err with
// status 404 or 403. Otherwise it returns err itself, which net/http answers with status 500.
func standardError(err error) error {
	switch statusOf(err) {
	case http.StatusNotFound:
		return fs.ErrNotExist
	case http.StatusForbidden:
		return fs.ErrPermission
	}
	return err
}

// statusOf returns the HTTP status for err, an error from opening a file.
func statusOf(err error) int {
	switch {
	case errors.Is(err, fs.ErrNotExist), err == errDirectory:
		return http.StatusNotFound
	case errors.Is(err, fs.ErrPermission):
		return http.StatusForbidden
	case errors.Is(err, fs.ErrClosed):
		return http.StatusInternalServerError
	}
	return statusOfSyscall(err)
}
