package chunk_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/millrace-io/millrace/chunk"
)

// Files without a modification time have a strong tag of their content, so that clients need not
// load them again.
func TestFileServerFSTagsTheContent(t *testing.T) {
	files := chunk.FileServerFS(embedded)
	w := ask(files, "/fileserver_fs_test.go")
	tag := w.Header().Get("ETag")
	if w.Code != 200 || len(tag) < 20 || tag[0] != '"' || w.Header().Get("Last-Modified") != "" {
		t.Fatalf("%d %v", w.Code, w.Header())
	}
	self, err := embedded.ReadFile("fileserver_fs_test.go")
	must(t, err)
	if !bytes.Equal(w.Body.Bytes(), self) {
		t.Error("other bytes after the tag was made")
	}
	r := get("/fileserver_fs_test.go", "")
	r.Header.Set("If-None-Match", tag)
	if w := serveTo(files, r); w.Code != http.StatusNotModified {
		t.Errorf("with its tag: %d", w.Code)
	}
	r = get("/fileserver_fs_test.go", "bytes=8-12")
	r.Header.Set("If-Range", tag)
	if w := serveTo(files, r); w.Code != 206 || w.Body.String() != "chunk" {
		t.Errorf("the rest of a download: %d %.20q", w.Code, w.Body)
	}
	if other := ask(files, "/tail_test.go").Header().Get("ETag"); other == tag || other == "" {
		t.Errorf("two files have the tags %s and %s", tag, other)
	}
	if s := files.Sent(); s.Sendfile != 0 || s.Copied != s.Bytes {
		t.Errorf("%+v, want all bytes copied", s)
	}
}

func TestFileServerFSTags(t *testing.T) {
	old := map[string]string{"a": "one", "large": strings.Repeat("x", 16<<20+1)}
	tagOf := func(fsys fs.FS, path string) string {
		return ask(chunk.FileServerFS(fsys), path).Header().Get("ETag")
	}
	untimed := mapOf(old, time.Time{})
	one := tagOf(untimed, "/a")
	for _, c := range []struct {
		what, a, b string
		same       bool
	}{
		{"the epoch is no time", one, tagOf(mapOf(old, time.Unix(0, 0)), "/a"), true},
		{"other content", one, tagOf(mapOf(map[string]string{"a": "two"}, time.Time{}), "/a"),
			false},
		{"another time", tagOf(mapOf(old, modified), "/a"),
			tagOf(mapOf(old, modified.Add(1)), "/a"), false},
		{"the same time", tagOf(mapOf(old, modified), "/a"), tagOf(mapOf(old, modified), "/a"),
			true},
		{"too large", tagOf(untimed, "/large"), "", true},
	} {
		if (c.a == c.b) != c.same {
			t.Errorf("%s: tags %s and %s", c.what, c.a, c.b)
		}
	}
	// A file of another size is another version.
	m := mapOf(old, time.Time{})
	files := chunk.FileServerFS(m)
	before := ask(files, "/a").Header().Get("ETag")
	m["a"] = &fstest.MapFile{Data: []byte("longer"), Mode: 0o644}
	if w := ask(files, "/a"); w.Body.String() != "longer" || w.Header().Get("ETag") == before {
		t.Errorf("%q has the tag of another version", w.Body)
	}
	m = mapOf(map[string]string{"a.js": "plain", "a.js.gz": "GZIP"}, time.Time{})
	files = chunk.FileServerFS(m, chunk.Precompressed())
	r := get("/a.js", "")
	r.Header.Set("Accept-Encoding", "gzip")
	w := serveTo(files, r)
	if plain := ask(files, "/a.js"); w.Body.String() != "GZIP" || plain.Body.String() != "plain" ||
		w.Header().Get("ETag") == plain.Header().Get("ETag") {
		t.Errorf("%v %q, %v %q", w.Header(), w.Body, plain.Header(), plain.Body)
	}
}

// brokenFS returns its error from each Open.
type brokenFS struct{ err error }

func (f brokenFS) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: f.err}
}

// noSeekFS has files without Seek.
type noSeekFS struct{ fs.FS }

func (f noSeekFS) Open(name string) (fs.File, error) {
	file, err := f.FS.Open(name)
	return struct{ fs.File }{file}, err
}

func TestFileServerFSErrors(t *testing.T) {
	content := map[string]string{"a": "one", "dir/b": "two", "c.txt": "three"}
	m, untimed := mapOf(content, modified), mapOf(content, time.Time{})
	for _, c := range []struct {
		fsys fs.FS
		path string
		want int
	}{
		{brokenFS{fs.ErrNotExist}, "/a", 404},
		{brokenFS{fs.ErrPermission}, "/a", 403},
		{brokenFS{errors.New("the store is down")}, "/a", 500},
		{brokenFS{errors.New("the store is down")}, "/dir/", 500},
		{noSeekFS{m}, "/a", 500}, // the type is unknown
		{noSeekFS{m}, "/c.txt", 200},
		{noSeekFS{untimed}, "/c.txt", 200},
		{brokenFS{fs.ErrInvalid}, "/a", 404},
		{brokenFS{fs.ErrInvalid}, "/a/", 404},
		{os.DirFS(t.TempDir()), "/a%00b", 404},
		{os.DirFS(t.TempDir()), "/%ff", 404},
		{noSeekFS{m}, "/nothing", 404},
		{m, "/dir", 301},
		{m, "/dir/", 200},
		{m, "/a/", 301},
		{m, "/a/b", 404},
		{m, "/\xff", 404},
		{m, "/../a", 200},
	} {
		if w := ask(chunk.FileServerFS(c.fsys), c.path); w.Code != c.want {
			t.Errorf("%T %s: %d, want %d", c.fsys, c.path, w.Code, c.want)
		}
	}
	files := chunk.FileServerFS(m)
	for name, want := range map[string]int{"a": 200, "dir/b": 200, "": 404, "/a": 404, "../a": 404,
		"dir": 404, ".": 404, "a:b": 404} {
		w := httptest.NewRecorder()
		if files.ServeFile(w, get("/", ""), name); w.Code != want {
			t.Errorf("ServeFile %q: %d, want %d", name, w.Code, want)
		}
	}
}

// Files of the operating system are sent by sendfile, and DropBehind applies to them.
func TestFileServerFSSendfile(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("counts sendfile on Linux")
	}
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "a.bin"), make([]byte, 20<<20), 0o644))
	for _, opts := range [][]chunk.FileOption{nil, {chunk.DropBehind(1)}} {
		files := chunk.FileServerFS(os.DirFS(dir), opts...)
		url, client := serve(t, files, false, false)
		res, err := client.Get(url + "/a.bin")
		must(t, err)
		if r := newReply(t, res); len(r.body) != 20<<20 || r.header.Get("ETag") == "" {
			t.Fatalf("%d bytes, %v", len(r.body), r.header)
		}
		until(t, "the handler returns", func() bool { return files.Sent().Bytes == 20<<20 })
		if err := files.Sent().FastPath(); err != nil {
			t.Error(err)
		}
	}
}

// countingFS counts the bytes that are read from its files, which have no time.
type countingFS struct {
	fstest.MapFS
	read *atomic.Int64
}

type countingFile struct {
	fs.File
	read *atomic.Int64
}

func (f countingFS) Open(name string) (fs.File, error) {
	file, err := f.MapFS.Open(name)
	return countingFile{file, f.read}, err
}

func (f countingFile) Read(p []byte) (int, error) {
	n, err := f.File.Read(p)
	f.read.Add(int64(n))
	return n, err
}

func (f countingFile) Seek(offset int64, whence int) (int64, error) {
	return f.File.(interface {
		Seek(int64, int) (int64, error)
	}).Seek(offset, whence)
}

// The content of a file is read once for its tag, also by many requests, and any number of names
// takes a bounded number of tags.
func TestFileServerFSReadsOnceForTheTag(t *testing.T) {
	content := make(map[string]string)
	for i := range 5000 {
		content[fmt.Sprint(i, ".txt")] = "text"
	}
	content["a.txt"] = strings.Repeat("x", 100_000)
	var read atomic.Int64
	files := chunk.FileServerFS(countingFS{mapOf(content, time.Time{}), &read})
	for range 10 {
		w := httptest.NewRecorder()
		files.ServeHTTP(w, httptest.NewRequest("HEAD", "/a.txt", nil))
		if w.Header().Get("ETag") == "" || read.Load() != 100_000 {
			t.Fatalf("%v, %d bytes read", w.Header(), read.Load())
		}
	}
	var all sync.WaitGroup
	for i := range 5000 {
		all.Go(func() {
			if w := ask(files, fmt.Sprint("/", i, ".txt")); w.Header().Get("ETag") == "" {
				t.Error("no tag")
			}
		})
	}
	all.Wait()
	if n := files.Tags(); n != 4096 {
		t.Errorf("%d tags are kept", n)
	}
}
