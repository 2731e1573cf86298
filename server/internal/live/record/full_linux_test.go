package record

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/testkit/childproc"
	"github.com/millrace-io/millrace/internal/testkit/need"
)

func init() { children[childLimited] = recordSmallFiles }

// If the disk is full, the file ends. A new file begins when there is room again.
func TestDiskFull(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=2m"); err != nil {
		need.Missing(t, "a file system of its own: run as root")
	}
	t.Cleanup(func() { // after the rig's cleanup
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 1500<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	clock := newClock("2026-11-24T15:00:00Z")
	r := newRig(t, func(c *Config) { c.Dir, c.now = dir, clock.now })
	r.feed.tick = func() { clock.add(40 * time.Millisecond) }
	rec := r.stream("cam")
	n := 0
	for r.Stats().Failures == 0 && n < 5000 {
		n += len(r.feed.to(rec, 20))
		r.settle()
	}
	for range 10 { // it retries without success
		n += len(r.feed.to(rec, 100))
		r.settle()
	}
	// The written part can be played, even if the file could not be finished.
	for _, name := range r.files("cam") {
		text, err := os.ReadFile(name + listExt)
		if err != nil {
			t.Fatal(err)
		}
		p, err := readPlaylist(string(text), name)
		if err != nil {
			t.Fatal(err)
		}
		media, err := os.ReadFile(name + mediaExt)
		if err != nil {
			t.Fatal(err)
		}
		checkEntries(t, media, p, true)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	clock.add(retryAfter)
	n += len(r.feed.to(rec, 100))
	rec.Close()
	r.ended()
	got := r.checkAll("cam")
	st := r.Stats()
	if len(got)+int(st.Lost) < n || st.Lost == 0 || len(got) < 200 || st.Bytes != sizes(t, dir) {
		t.Errorf("%d fragments of %d, %+v, %d bytes", len(got), n, st, sizes(t, dir))
	}
	if log := r.log.String(); strings.Count(log, "no space left") != 1 ||
		strings.Count(log, "continues\"") != 1 {
		t.Errorf("the log:\n%s", log)
	}
	r.plays("cam")
}

// smallFile is the limit of recordSmallFiles: some seconds of the stream. It is in the middle of a
// fragment.
const smallFile = 300_001

// recordSmallFiles records 60 s in a process with a limited file size.
func recordSmallFiles(dir string) {
	signal.Ignore(syscall.SIGXFSZ)
	err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: smallFile, Max: smallFile})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	clock := newClock("2026-11-24T15:00:00Z")
	a, err := Open(Config{Dir: dir, now: clock.now})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	rec, err := a.Stream("cam")
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	f := newFeed()
	f.tick = func() { clock.add(40 * time.Millisecond) }
	for range 60 {
		f.to(rec, 25)
		for notify(rec.mustWrite); rec.queued() > 0; time.Sleep(100 * time.Microsecond) {
		}
	}
	rec.Close()
	<-rec.done
	st := a.Stats()
	fmt.Print(st.Files, st.Lost, st.Failures)
	os.Exit(0)
}

// If the system does not let a file grow, the file ends after its last whole fragment.
func TestFileSizeLimit(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+childLimited, childDirEnv+"="+dir)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	var guard childproc.Guard
	if err := guard.Start(cmd); err != nil {
		t.Fatal(err)
	}
	err := cmd.Wait()
	guard.Release()
	var files, lost, failures int
	if _, scanErr := fmt.Sscan(out.String(), &files, &lost, &failures); err != nil ||
		scanErr != nil {
		t.Fatalf("recording above the file size limit: %v, %s", err, &out)
	}
	n := 0
	for _, name := range filesOf(t, filepath.Join(dir, "cam")) {
		all, _ := check(t, name, true)
		n += len(all)
		info, err := os.Stat(name + mediaExt)
		if err != nil || info.Size() > smallFile {
			t.Error(info.Size(), err)
		}
	}
	if files < 3 || failures < files-1 || lost == 0 || n+lost < 60*25 {
		t.Errorf("%d files, %d failures, %d fragments, %d lost", files, failures, n, lost)
	}
}
