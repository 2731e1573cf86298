package chunk_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/millrace-io/millrace/chunk"
	"github.com/millrace-io/millrace/internal/testkit/need"
	"golang.org/x/sys/unix"
)

// TestFileServerSpecialFiles checks that a pipe, a socket or a device is refused without being
// opened, so that no writer is woken.
func TestFileServerSpecialFiles(t *testing.T) {
	root, dir := makeTree(t, map[string]string{"link": "->pipe", "sub/index.html": "->../pipe"})
	must(t, unix.Mkfifo(filepath.Join(dir, "pipe"), 0o644))
	// Unlike Bind, Mknod accepts a path of any length.
	must(t, unix.Mknod(filepath.Join(dir, "socket"), unix.S_IFSOCK|0o644, 0))
	names := []string{"/pipe", "/pipe/", "/link", "/socket"}
	if err := unix.Mknod(filepath.Join(dir, "null"), syscall.S_IFCHR|0o666,
		int(unix.Mkdev(1, 3))); err == nil {
		names = append(names, "/null")
	}
	h := chunk.FileServer(root)
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
	for done := false; !done; { // the writer may not have called open yet
		select {
		case <-woken:
			done = true
		case <-time.After(time.Millisecond):
		}
	}
	must(t, f.Close())
}

// TestDropBehind checks that sent parts of a long response leave the page cache, and that parts
// that another response sends at the same time stay.
func TestDropBehind(t *testing.T) {
	const size = 40 << 20
	root, dir := makeTree(t, map[string]string{"large.bin": "", "control.bin": ""})
	name := filepath.Join(dir, "large.bin")
	for _, n := range []string{name, filepath.Join(dir, "control.bin")} {
		f, err := os.Create(n)
		must(t, err)
		_, err = f.Write(make([]byte, size))
		must(t, err)
		must(t, f.Sync())
		if n != name {
			must(t, unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED))
		}
		must(t, f.Close())
	}
	if resident(t, name) < size/2 || resident(t, filepath.Join(dir, "control.bin")) > size/2 {
		need.Missing(t,
			"a file system that drops from its page cache: set TMPDIR to a directory on a disk")
	}
	h := chunk.FileServer(root, chunk.DropBehind(size/2))
	url, _ := serve(t, h, false, false)
	fetch(t, "GET", url+"/large.bin", "Range", "bytes=0-1000")
	if n := resident(t, name); n < size/2 {
		t.Errorf("a short response leaves %d bytes in the page cache", n)
	}
	fetch(t, "GET", url+"/large.bin")
	begun := time.Now()
	// The handler drops the last bytes after the client has received them.
	for n := resident(t, name); n > size/2; n = resident(t, name) {
		if time.Since(begun) > time.Minute {
			t.Fatalf("%d bytes are left in the page cache", n)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// resident returns how many bytes of a file are in the page cache.
func resident(t *testing.T, name string) (bytes int) {
	t.Helper()
	f, err := os.Open(name)
	must(t, err)
	defer f.Close()
	info, err := f.Stat()
	must(t, err)
	mapped, err := unix.Mmap(int(f.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_SHARED)
	must(t, err)
	defer func() { must(t, unix.Munmap(mapped)) }()
	page := os.Getpagesize()
	pages := make([]byte, (len(mapped)+page-1)/page)
	_, _, errno := unix.Syscall(unix.SYS_MINCORE,
		uintptr(unsafe.Pointer(&mapped[0])), uintptr(len(mapped)),
		uintptr(unsafe.Pointer(&pages[0])))
	if errno != 0 {
		need.Missing(t, "a kernel with mincore: "+errno.Error())
	}
	for _, p := range pages {
		bytes += int(p&1) * page
	}
	return bytes
}
