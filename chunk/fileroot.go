package chunk

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
)

var (
	errDirectory = errors.New("chunk: is a directory")
	errSpecial   = fmt.Errorf("chunk: not served: %w", fs.ErrPermission)
	errNoSeek    = errors.New("io.File missing Seek method") // net/http sends the same text
)

type fileRoot struct{ fs.FS }

type contentFile interface {
	fs.File
	io.Seeker
}

// An unseekable adds a Seek method to a file that has none. The method always fails.
type unseekable struct{ fs.File }

func (unseekable) Seek(offset int64, whence int) (int64, error) { return 0, errNoSeek }

// open returns an open regular file, which the caller must close. If the name belongs to a
// directory, the error is errDirectory.
func (d fileRoot) open(name string) (contentFile, fs.FileInfo, error) {
	// Check the type first: opening a pipe wakes the process that waits to write to it, and opening
	// a device may have any effect.
	if s, ok := d.FS.(fs.StatFS); ok {
		info, err := s.Stat(name)
		if err == nil {
			err = checkRegular(info)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	f, err := d.FS.Open(name)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil {
		err = checkRegular(info)
	}
	if err != nil {
		_ = f.Close()
		return nil, nil, err
	}
	if c, ok := f.(contentFile); ok {
		return c, info, nil
	}
	return unseekable{f}, info, nil
}

// A rootFS is an fs.FS of the files in an os.Root. No name or link leads out of the root's
// directory.
type rootFS struct{ *os.Root }

// Open opens a file. If the file is a pipe, Open does not wait for a writer.
func (r rootFS) Open(name string) (fs.File, error) {
	f, err := r.Root.OpenFile(name, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil, rootError(err)
	}
	return f, nil
}

// Stat implements fs.StatFS.
func (r rootFS) Stat(name string) (fs.FileInfo, error) {
	info, err := r.Root.Stat(name)
	return info, rootError(err)
}

// rootError returns fs.ErrNotExist if err is the error that an os.Root returns for a name that
// leads out of its directory. Otherwise rootError returns err.
func rootError(err error) error {
	if err == nil || statusOfSyscall(err) != 0 || errors.Is(err, fs.ErrClosed) {
		return err
	}
	return fs.ErrNotExist
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

// An openedFiles is the fs.FS for http.FileServerFS, which redirects and lists directories.
type openedFiles struct{ fileRoot }

// Open opens a regular file or a directory.
func (o openedFiles) Open(name string) (fs.File, error) {
	f, _, err := o.fileRoot.open(name)
	if err == nil {
		return f, nil
	}
	if err == errDirectory {
		var dir fs.File
		if dir, err = o.FS.Open(name); err == nil {
			return dir, nil
		}
	}
	return nil, standardError(err)
}

// rootName converts a clean path, which begins with a slash, to a name within the root.
func rootName(clean string) string {
	if clean == "/" {
		return "."
	}
	return clean[1:]
}

// standardError returns an error that makes net/http send the status that this package chooses for
// err: fs.ErrNotExist for 404, fs.ErrPermission for 403, or err itself for 500.
func standardError(err error) error {
	switch statusOf(err) {
	case http.StatusNotFound:
		return fs.ErrNotExist
	case http.StatusForbidden:
		return fs.ErrPermission
	}
	return err
}

func statusOf(err error) int {
	switch {
	case errors.Is(err, fs.ErrNotExist), err == errDirectory,
		errors.Is(err, fs.ErrInvalid): // no file can have such a name
		return http.StatusNotFound
	case errors.Is(err, fs.ErrPermission):
		return http.StatusForbidden
	}
	return cmp.Or(statusOfSyscall(err), http.StatusInternalServerError)
}
