package chunk_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestFileServerSpecialFiles: what is no file is refused without being opened, and nobody waits for it or wakes it.
func TestFileServerSpecialFiles(t *testing.T) {
	root, dir := makeTree(t, map[string]string{"link": "->pipe", "sub/index.html": "->../pipe"})
	must(t, unix.Mkfifo(filepath.Join(dir, "pipe"), 0o644))
	socket, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	must(t, err)
	defer unix.Close(socket)
	must(t, unix.Bind(socket, &unix.SockaddrUnix{Name: filepath.Join(dir, "socket")}))
	names := []string{"/pipe", "/pipe/", "/link", "/socket"}
	if err := unix.Mknod(filepath.Join(dir, "null"), syscall.S_IFCHR|0o666, int(unix.Mkdev(1, 3))); err == nil {
		names = append(names, "/null")
	}
	h := newFiles(t, root)
	woken := make(chan struct{})
	go func() {
		f, err := os.OpenFile(filepath.Join(dir, "pipe"), os.O_WRONLY, 0) // waits for a reader
		if err == nil {
			_ = f.Close()
		}
		close(woken)
	}()
	for _, name := range names {
		if w := ask(h, name); w.Code != 403 {
			t.Errorf("%s: %d, want 403", name, w.Code)
		}
	}
	if w := ask(h, "/sub/"); w.Code != 200 {
		t.Errorf("an index that is a pipe: %d, want a list", w.Code)
	}
	select {
	case <-woken:
		t.Error("a writer was woken")
	default:
	}
	f, err := os.OpenFile(filepath.Join(dir, "pipe"), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	must(t, err)
	for done := false; !done; { // the writer may not have come to its open yet
		select {
		case <-woken:
			done = true
		case <-time.After(time.Millisecond):
		}
	}
	must(t, f.Close())
}

// TestFileServerSparse: a size that a file only says it has takes no memory, and its ends can be read.
func TestFileServerSparse(t *testing.T) {
	root, dir := makeTree(t, map[string]string{"a.bin": ""})
	size := int64(1) << 62
	for ; os.Truncate(filepath.Join(dir, "a.bin"), size) != nil; size /= 2 {
		if size < 1<<34 {
			t.Skip("the file system has no large files")
		}
	}
	h := newFiles(t, root)
	for _, ranges := range []string{"bytes=0-9", "bytes=-10", "bytes=" + itoa(int(size/2)) + "-" + itoa(int(size/2+9))} {
		r := get("/a.bin", ranges)
		if w := serveTo(h, r); w.Code != 206 || w.Body.String() != string(make([]byte, 10)) {
			t.Errorf("%s: %d %q", ranges, w.Code, w.Body)
		}
	}
	if n := h.Regions("a.bin"); n > 1024 {
		t.Errorf("room for %d verdicts", n)
	}
}
