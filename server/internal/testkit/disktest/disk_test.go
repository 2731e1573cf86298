package disktest

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/testkit/leaktest"
	"github.com/millrace-io/millrace/server/internal/disk"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func openDisk(t *testing.T) (*Disk, disk.Root) {
	t.Helper()
	d := New(t.TempDir())
	root, err := d.Open("")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := root.Close(); err != nil || d.Opened() != 0 {
			t.Errorf("%v, %d files are open", err, d.Opened())
		}
	})
	return d, root
}

// must fails the test if one of the calls has failed.
func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// create creates a file, writes the parts to it, and closes it.
func create(t *testing.T, root disk.Root, name string, parts ...string) {
	t.Helper()
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	must(t, err)
	for _, p := range parts {
		_, err := f.Write([]byte(p))
		must(t, err)
	}
	must(t, f.Close())
}

func fsyncs(t *testing.T, root disk.Root, name string) {
	t.Helper()
	f, err := root.Open(name)
	must(t, err)
	must(t, f.Sync(), f.Close())
}

// After a crash of the process, the state is the directory, and Restore writes the same files.
func TestProcessCrashLosesNothing(t *testing.T) {
	d, root := openDisk(t)
	rnd := rand.New(rand.NewPCG(1, 1))
	copied := New(t.TempDir())
	names := []string{"a", "b", "c/a", "c/b", "c/d/a"}
	for i := range 300 {
		name, other := names[rnd.IntN(len(names))], names[rnd.IntN(len(names))]
		must(t, root.MkdirAll(path.Dir(name), 0o700), root.MkdirAll(path.Dir(other), 0o700))
		var err error
		switch rnd.IntN(6) {
		case 0:
			create(t, root, name, fmt.Sprint(i), string(make([]byte, rnd.IntN(100))), "end")
		case 1:
			err = root.Rename(name, other)
		case 2:
			err = root.Remove(name)
		case 3:
			at := time.Unix(1e9+int64(i), int64(i))
			err = errors.Join(root.Chmod(name, 0o640), root.Chtimes(name, at, at))
		case 4:
			err = root.RemoveAll("c")
		case 5:
			var f disk.File
			if f, err = root.OpenFile(name, os.O_RDWR, 0); err == nil {
				err = errors.Join(f.Truncate(rnd.Int64N(50)), f.Close())
			}
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		s := d.Crash(d.Len(), 512, nil)
		if copied, err = s.Restore(copied); err != nil {
			t.Fatal(err)
		}
		want := list(t, d.Dir())
		if got := list(t, copied.Dir()); !slices.Equal(got, want) {
			t.Fatalf("step %d: %q, want %q", i, got, want)
		}
		if got := copied.Crash(copied.Len(), 512, Random(i, 0, 0)); got.Sum() != s.Sum() {
			t.Fatalf("step %d: the restored files are not durable: %s, want %s", i, got, s)
		}
	}
}

// list returns the names, permissions and bytes of all files.
func list(t *testing.T, dir string) (all []string) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || name == dir {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		text := fmt.Sprint(name[len(dir):], info.Mode())
		if !e.IsDir() {
			data, err := os.ReadFile(name)
			text += fmt.Sprintf(" %q", data)
			if err != nil {
				return err
			}
		}
		all = append(all, text)
		return nil
	}))
	return all
}

// possible returns the states of many crashes, as text.
func possible(d *Disk, block int, of func(s *State) string) []string {
	all := make(map[string]bool)
	for i := range 2000 {
		all[of(d.Crash(d.Len(), block, Random(i, 0, 0)))] = true
	}
	var texts []string
	for text := range all {
		texts = append(texts, text)
	}
	slices.Sort(texts)
	return texts
}

func names(s *State) (all string) {
	for _, f := range s.files {
		all += f.path + " "
	}
	return all
}

// Names are lost independently until their directory is synced.
func TestUnsyncedNames(t *testing.T) {
	d, root := openDisk(t)
	create(t, root, "a")
	fsyncs(t, root, ".")
	must(t, root.Mkdir("d", 0o700))
	create(t, root, "b")
	if got := possible(d, 1, names); !slices.Equal(got, []string{"a ", "a b ", "a b d ", "a d "}) {
		t.Errorf("%q", got)
	}
	fsyncs(t, root, ".")
	must(t, root.Rename("a", "d/a"), root.Remove("b"))
	if got := possible(d, 1, names); !slices.Equal(got, []string{"a b d ", "a b d d/a ", "a d ",
		"a d d/a ", "b d d/a ", "d d/a "}) {
		t.Errorf("%q", got)
	}
	fsyncs(t, root, "d")
	if got := possible(d, 1, names); !slices.Equal(got, []string{"a b d d/a ", "a d d/a ",
		"b d d/a ", "d d/a "}) {
		t.Errorf("%q", got)
	}
	d.Writeback()
	if got := possible(d, 1, names); !slices.Equal(got, []string{"d d/a "}) {
		t.Errorf("%q", got)
	}
}

// Blocks are lost independently until their file is synced. A file may also be too short.
func TestUnsyncedBytes(t *testing.T) {
	d, root := openDisk(t)
	f, err := root.OpenFile("a", os.O_WRONLY|os.O_CREATE, 0o600)
	must(t, err)
	defer f.Close()
	write := func(text string) {
		_, err := f.Write([]byte(text))
		d.Note()
		must(t, err)
	}
	write("1")
	fsyncs(t, root, "a")
	fsyncs(t, root, ".")
	write("23")
	write("4")
	content := func(s *State) string { return string(s.File("a")) }
	want := []string{"1", "1\x00", "1\x00\x00", "1\x00\x004", "1\x003", "1\x0034", "12", "12\x00",
		"12\x00\x00", "12\x004", "123", "123\x00", "1234", "1\x00\x00\x00", "1\x003\x00"}
	for _, got := range possible(d, 2, content) {
		if !slices.Contains(want, got) {
			t.Errorf("%q", got)
		}
	}
	for _, want := range []string{"1", "12", "1\x0034", "12\x00\x00", "1234", "123"} {
		if !slices.Contains(possible(d, 2, content), want) {
			t.Errorf("%q is missing", want)
		}
	}
	must(t, f.Sync())
	if got := possible(d, 2, content); !slices.Equal(got, []string{"1234"}) {
		t.Errorf("%q", got)
	}
}

// One call fails, and only this one. A short write writes a part.
func TestFail(t *testing.T) {
	d, root := openDisk(t)
	create(t, root, "a")
	for k := range 4 {
		for _, short := range []bool{false, true} {
			d.Fail(k, 1, syscall.EIO, short)
			failed := 0
			try := func(err error) {
				if errors.Is(err, syscall.EIO) {
					failed++
				} else if err != nil {
					t.Error(err)
				}
			}
			f, err := root.OpenFile("a", os.O_WRONLY|os.O_TRUNC, 0)
			if try(err); err == nil {
				_, err = f.Write([]byte("text"))
				try(err)
				try(f.Sync())
				try(f.Close())
			}
			if failed != 1 {
				t.Errorf("%d calls failed", failed)
			}
			want := "text"
			if k == 1 {
				want = map[bool]string{false: "", true: "te"}[short]
			}
			if got, _ := os.ReadFile(filepath.Join(d.Dir(), "a")); k > 0 && string(got) != want {
				t.Errorf("call %d, short: %v: %q, want %q", k, short, got, want)
			}
		}
	}
	if got := string(d.Written()["a"]); got != "te"+strings.Repeat("text", 4) {
		t.Errorf("%q was written", got)
	}
}
