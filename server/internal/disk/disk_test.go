package disk

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
	"testing"

	"github.com/millrace-io/millrace/internal/testkit/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// The files of Open are files of the operating system, which sendfile and writev need. A file that
// cannot be opened is nil.
func TestOpen(t *testing.T) {
	if r, err := Open(t.TempDir() + "/none"); r != nil || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v, %v, want fs.ErrNotExist", r, err)
	}
	r, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if f, err := r.Open("none"); f != nil || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v, %v, want fs.ErrNotExist", f, err)
	}
	f, err := r.OpenFile("file", os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, ok := f.(*os.File); !ok {
		t.Errorf("a file is a %T", f)
	}
	if err := SyncDir(r, "."); err != nil {
		t.Error(err)
	}
}

// A syncRoot opens directories whose Sync returns err.
type syncRoot struct {
	Root
	err error
}

func (r syncRoot) Open(name string) (File, error) {
	f, err := r.Root.Open(name)
	return syncFile{f, r.err}, err
}

type syncFile struct {
	File
	err error
}

func (f syncFile) Sync() error { return f.err }

// SyncDir fails only if the file system supports fsync of directories.
func TestSyncDirErrors(t *testing.T) {
	r, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for err, want := range map[error]error{nil: nil, syscall.EINVAL: nil, errors.ErrUnsupported: nil,
		syscall.EIO: syscall.EIO, syscall.ENOSPC: syscall.ENOSPC} {
		if got := SyncDir(syncRoot{r, err}, "."); !errors.Is(got, want) {
			t.Errorf("after %v: %v, want %v", err, got, want)
		}
	}
}
