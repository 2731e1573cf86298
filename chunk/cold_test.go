//go:build linux

package chunk_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/millrace-io/millrace/chunk"
)

// cachedPages returns how much of a file is in the page cache, in bytes.
func cachedPages(t *testing.T, name string) int64 {
	t.Helper()
	f, err := os.Open(name)
	must(t, err)
	defer f.Close()
	info, err := f.Stat()
	must(t, err)
	m, err := unix.Mmap(int(f.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_SHARED)
	must(t, err)
	defer func() { must(t, unix.Munmap(m)) }()
	page := os.Getpagesize()
	vec := make([]byte, (len(m)+page-1)/page)
	if _, _, errno := unix.Syscall(unix.SYS_MINCORE,
		uintptr(unsafe.Pointer(&m[0])), uintptr(len(m)), uintptr(unsafe.Pointer(&vec[0]))); errno != 0 {
		t.Skip("mincore:", errno)
	}
	n := 0
	for _, v := range vec {
		n += int(v & 1)
	}
	return int64(n * page)
}

// chill takes a file out of the page cache, or skips the test where that cannot be done or seen.
func chill(t *testing.T, name string) {
	t.Helper()
	f, err := os.Open(name)
	must(t, err)
	defer f.Close()
	must(t, f.Sync())
	for range 100 { // pages that somebody is just done with stay now and then
		must(t, unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED))
		if cachedPages(t, name) == 0 {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Skip("this file system keeps its files in memory")
}

// coldTree has two files of 3 MiB, of which cold.bin is not in the page cache, on a disk if there is one.
func coldTree(t *testing.T) (root *os.Root, dir string, content []byte) {
	needSamples(t)
	content = bytes.Repeat(letters, 12)
	root, dir = makeTree(t, map[string]string{"cold.bin": string(content), "hot.bin": string(content)})
	chill(t, filepath.Join(dir, "cold.bin"))
	return root, dir, content
}

// TestColdWaits: while others read, a cold file waits for its turn; a hot one is sent, and who gives up is let go.
func TestColdWaits(t *testing.T) { bySight(t, coldWaits) }

func coldWaits(t *testing.T) {
	root, _, content := coldTree(t)
	synctest.Test(t, func(t *testing.T) {
		h := chunk.FileServer(root, chunk.ColdReaders(2))
		defer h.Close()
		giveBack := h.TakeColdSlots()
		cold := httptest.NewRecorder()
		coldDone := make(chan struct{})
		go func() {
			h.ServeHTTP(cold, get("/cold.bin", "bytes=1048576-").WithContext(context.Background()))
			close(coldDone)
		}()
		ctx, cancel := context.WithCancel(context.Background())
		gaveUp := make(chan struct{})
		go func() {
			r := get("/cold.bin", "bytes=1048576-").WithContext(ctx)
			r.ProtoMajor = 2 // with HTTP/1, a client that says no more may still listen
			defer close(gaveUp)
			defer func() {
				if v := recover(); v != http.ErrAbortHandler {
					t.Errorf("a body that was given up looks whole: %v", v)
				}
			}()
			h.ServeHTTP(httptest.NewRecorder(), r)
		}()
		synctest.Wait()
		for range 3 {
			if w := serveTo(h, get("/hot.bin", "")); !bytes.Equal(w.Body.Bytes(), content) {
				t.Errorf("hot: %d, %d bytes", w.Code, w.Body.Len())
			}
		}
		cancel()
		<-gaveUp
		select {
		case <-coldDone:
			t.Error("a cold file did not wait for its turn")
		default:
		}
		giveBack()
		<-coldDone
		if !bytes.Equal(cold.Body.Bytes(), content[1<<20:]) {
			t.Errorf("cold: %d, %d bytes", cold.Code, cold.Body.Len())
		}
		// A first page may have come for a sample.
		if s := h.Stats(); s.ColdReads != 1 || s.ColdBytes < 1<<19 {
			t.Errorf("%+v, want a cold read", s)
		}
	})
}

// TestColdToHot: a file is read once, and its second answer, over a connection, finds it in the page cache; or a later one, if
// the kernel has taken a page of it meanwhile.
func TestColdToHot(t *testing.T) { bySight(t, coldToHot) }

// One time in a hundred, on a busy machine, the kernel has all of a file again that it had let go: samples find every page,
// before anything was read. Such a file is hot, and another one is taken.
func coldToHot(t *testing.T) {
	for try := 1; !answersColdFirst(t); try++ {
		if try == 5 {
			t.Fatal("the first answer is hot, again and again")
		}
	}
}

// answersColdFirst reports whether a file's first answer says that it is cold, and tests what follows if it does.
func answersColdFirst(t *testing.T) bool {
	root, _, content := coldTree(t)
	h := newFiles(t, root, chunk.ServerTiming())
	url, client := serve(t, h, false, false)
	ask := func() (timing string) {
		res, err := client.Get(url + "/cold.bin")
		must(t, err)
		body, err := io.ReadAll(res.Body)
		must(t, err)
		must(t, res.Body.Close())
		if !bytes.Equal(body, content) {
			t.Errorf("%d bytes", len(body))
		}
		return res.Header.Get("Server-Timing")
	}
	if got := ask(); strings.Contains(got, "cache;desc=hot, path;desc=sendfile") {
		return false
	} else if !strings.Contains(got, "cache;desc=cold, path;desc=sendfile") {
		t.Errorf("the first answer: %s", got)
	}
	for h.Stats().Requests == 0 { // the client may have all of it before it is counted
		time.Sleep(time.Millisecond)
	}
	if s := h.Stats(); s.ColdReads != 1 || s.ColdBytes > int64(len(content)) || s.ColdBytes == 0 {
		t.Errorf("%+v, want one cold read of at most all", s)
	}
	for try := 1; ; try++ {
		got := ask()
		if strings.Contains(got, "cache;desc=hot, path;desc=sendfile") {
			break
		}
		if try == 8 {
			t.Fatalf("a later answer: %s", got)
		}
	}
	return true
}

// TestColdMany has many read a cold file by a single slot, each from another place.
func TestColdMany(t *testing.T) { bySight(t, coldMany) }

func coldMany(t *testing.T) {
	root, _, content := coldTree(t)
	h := newFiles(t, root, chunk.ColdReaders(1), chunk.DropBehind(1))
	url, client := serve(t, h, false, false)
	results := make(chan error)
	const many = 20
	for i := range many {
		go func() {
			from := i * len(content) / many
			r, _ := http.NewRequest("GET", url+"/cold.bin", nil)
			r.Header.Set("Range", fmt.Sprintf("bytes=%d-", from))
			res, err := client.Do(r)
			if err == nil {
				var body []byte
				body, err = io.ReadAll(res.Body)
				_ = res.Body.Close()
				if err == nil && !bytes.Equal(body, content[from:]) {
					err = fmt.Errorf("%d bytes from %d are wrong", len(body), from)
				}
			}
			results <- err
		}()
	}
	for range many {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	client.CloseIdleConnections()
}

// TestColdDropBehind: the page cache is as it was after the file is closed, and a hot file stays where it is. The kernel takes
// pages for other uses when it likes, so once out of several times is enough for what is to stay.
func TestColdDropBehind(t *testing.T) { bySight(t, coldDropBehind) }

func coldDropBehind(t *testing.T) {
	root, dir, content := coldTree(t)
	hot, cold := filepath.Join(dir, "hot.bin"), filepath.Join(dir, "cold.bin")
	whole := int64(len(content))
	for _, drop := range []bool{false, true} {
		opts := []chunk.FileOption{chunk.KeepOpen(0)}
		if drop {
			opts = append(opts, chunk.DropBehind(1<<20))
		}
		h := newFiles(t, root, opts...)
		for try := 1; ; try++ {
			_, err := os.ReadFile(hot)
			must(t, err)
			for _, name := range []string{"cold.bin", "hot.bin"} {
				if w := serveTo(h, get("/"+name, "")); !bytes.Equal(w.Body.Bytes(), content) {
					t.Errorf("%s: %d bytes", name, w.Body.Len())
				}
			}
			ofHot, ofCold := cachedPages(t, hot), cachedPages(t, cold)
			if drop && ofCold > 256<<10 {
				t.Errorf("%d bytes are left that should be dropped", ofCold)
			}
			chill(t, cold)
			if ofHot >= whole && (drop || ofCold >= whole) {
				break
			}
			if try == 8 {
				t.Errorf("dropped: %v: %d bytes of the hot file are left, and %d of the cold one", drop, ofHot, ofCold)
				break
			}
		}
	}
}

// TestColdDropLater: what a socket held when the answer ended is dropped when the file is closed. At times the kernel holds
// it for a moment longer than both ends of the connection, on a list of what another processor is to free; so once out of
// several times is enough.
func TestColdDropLater(t *testing.T) { bySight(t, coldDropLater) }

func coldDropLater(t *testing.T) {
	left := int64(0)
	for range 8 {
		if left = dropLater(t); left <= 256<<10 {
			return
		}
	}
	t.Errorf("%d bytes are left", left)
}

// dropLater returns how much of a file is in the page cache when it was sent and closed.
func dropLater(t *testing.T) int64 {
	root, dir, content := coldTree(t)
	h := newFiles(t, root, chunk.DropBehind(1), chunk.KeepOpen(time.Hour))
	url, client := serve(t, h, false, false)
	res, err := client.Get(url + "/cold.bin")
	must(t, err)
	body, err := io.ReadAll(res.Body)
	must(t, err)
	must(t, res.Body.Close())
	if !bytes.Equal(body, content) {
		t.Errorf("%d bytes", len(body))
	}
	client.CloseIdleConnections() // and with them what they hold
	for h.Stats().Requests == 0 {
		time.Sleep(time.Millisecond)
	}
	must(t, h.Close())
	return cachedPages(t, filepath.Join(dir, "cold.bin"))
}

// TestColdDropAlone: of two responses of one file, the first to end leaves in the page cache what the other may be about
// to send.
func TestColdDropAlone(t *testing.T) {
	root, _ := makeTree(t, map[string]string{"file": "some bytes"})
	synctest.Test(t, func(t *testing.T) {
		h := chunk.FileServer(root, chunk.DropBehind(1))
		defer h.Close()
		goOn, over := make(chan struct{}), make(chan struct{})
		for range 2 {
			w := &probe{ResponseRecorder: httptest.NewRecorder(), at: func() { <-goOn }}
			go func() {
				h.ServeHTTP(w, get("/file", ""))
				over <- struct{}{}
			}()
		}
		synctest.Wait()
		if h.EndHavingBrought("file") {
			t.Error("one of two has dropped what the other sends")
		}
		goOn <- struct{}{}
		<-over
		if !h.EndHavingBrought("file") {
			t.Error("the last one has dropped nothing")
		}
		goOn <- struct{}{}
		<-over
	})
}

// TestColdReadersBy: a Tuner's workers are who may read from a disk, and it hears of what they have read.
func TestColdReadersBy(t *testing.T) { bySight(t, coldReadersBy) }

func coldReadersBy(t *testing.T) {
	root, _, content := coldTree(t)
	synctest.Test(t, func(t *testing.T) {
		tuner := chunk.NewTuner(chunk.WorkersBetween(1, 1))
		h := chunk.FileServer(root, chunk.ColdReaders(5), chunk.ColdReadersBy(tuner))
		defer h.Close()
		must(t, tuner.Acquire(t.Context()))
		done := make(chan struct{})
		go func() {
			if w := serveTo(h, get("/cold.bin", "")); !bytes.Equal(w.Body.Bytes(), content) {
				t.Errorf("%d, %d bytes", w.Code, w.Body.Len())
			}
			close(done)
		}()
		synctest.Wait()
		if s := tuner.Stats(); s.Running != 1 || s.Waiting != 1 {
			t.Errorf("%d are reading and %d waiting, want 1 and 1", s.Running, s.Waiting)
		}
		tuner.Release()
		<-done
		if n, cold := tuner.MovedBytes(), h.Stats().ColdBytes; n == 0 || n != cold {
			t.Errorf("the tuner has heard of %d bytes, and %d came from the disk", n, cold)
		}
	})
}
