package chunk_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/millrace-io/millrace/chunk"
)

const (
	// stranger is set in a process that serves, as a user who owns nothing, the directory that is its descriptor 3.
	stranger = "MILLRACE_TEST_STRANGER"

	// nobody is that user.
	nobody = 65534

	// manySteps is how large a file is that is read from the disk in many steps, and of which the kernel, if it read ahead
	// as it does for others, would read most by itself.
	manySteps = 24 << 20
)

// bySight runs a test with pages counted, and again with samples only.
func bySight(t *testing.T, test func(t *testing.T)) {
	t.Run("counting", test)
	t.Run("sampling", func(t *testing.T) {
		t.Cleanup(chunk.WithoutCachestat())
		test(t)
	})
}

// needSamples skips a test where the file system of temporary files does not fail reads that would have to wait. One of
// those is overlayfs, of which cachestat tells nothing either: there all files count as cold, and then as hot.
func needSamples(t *testing.T) {
	f, err := os.CreateTemp(t.TempDir(), "")
	must(t, err)
	defer f.Close()
	if _, err := unix.Preadv2(int(f.Fd()), [][]byte{make([]byte, 1)}, 0, unix.RWF_NOWAIT); err != nil {
		t.Skip("samples of this file system's files tell nothing:", err)
	}
}

// stepsTree has a hot.bin, and a cold.bin of manySteps that is not in the page cache.
func stepsTree(t *testing.T) (dir string) {
	_, dir = makeTree(t, map[string]string{
		"cold.bin": string(bytes.Repeat(letters, manySteps/len(letters))),
		"hot.bin":  string(bytes.Repeat(letters, 12)),
	})
	return dir
}

// TestColdSamples: where samples are all there is, what they find missing is read in turns, to the last byte, and dropped.
func TestColdSamples(t *testing.T) {
	needSamples(t)
	t.Cleanup(chunk.WithoutCachestat())
	dir := stepsTree(t)
	leavesCacheAlone(t, dir, false, func() {
		root, err := os.OpenRoot(dir)
		must(t, err)
		defer root.Close()
		if read := serveSteps(t, root); read < manySteps/5 {
			t.Errorf("%d bytes of %d were read in turns", read, manySteps)
		}
	})
}

// TestColdOfOthers is the same for files that the server does not own, of which kernels from 6.14 on tell it nothing. The
// server is another process, of another user.
func TestColdOfOthers(t *testing.T) {
	if os.Getenv(stranger) != "" {
		root, err := os.OpenRoot("/proc/self/fd/3")
		must(t, err)
		defer root.Close()
		if read := serveSteps(t, root); read < manySteps/5 {
			t.Skipf("%d bytes of %d were read in turns", read, manySteps) // and much is left, which the other process sees
		}
		return
	}
	if os.Getuid() != 0 {
		t.Skip("only root may become another user: go test -c ./chunk && sudo ./chunk.test -test.run '^TestColdOfOthers$'")
	}
	needSamples(t)
	dir := stepsTree(t)
	leavesCacheAlone(t, dir, true, func() { beStranger(t, dir) })
}

// beStranger runs this test in a process of a user who owns nothing. Neither the directory nor the test's own binary can
// be reached by name then: directories above them are for their owner only.
func beStranger(t *testing.T, dir string) {
	t.Helper()
	must(t, os.Chmod(dir, 0o755))
	d, err := os.Open(dir)
	must(t, err)
	defer d.Close()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestColdOfOthers$")
	cmd.Dir, cmd.Env, cmd.ExtraFiles = "/", append(os.Environ(), stranger+"=1"), []*os.File{d}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EINVAL) {
		t.Skipf("this root may not become user %d: %v", nobody, err)
	}
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// serveSteps sends both files and returns how much of the cold one was read in turns: half of it, every second step, where
// the other half arrives meanwhile, and less where the machine is busy. Where the kernel reads ahead as it does for others
// it is a twentieth.
func serveSteps(t *testing.T, root *os.Root) (read int64) {
	t.Helper()
	h := newFiles(t, root, chunk.DropBehind(1), chunk.KeepOpen(0))
	for name, size := range map[string]int{"hot.bin": 12 * len(letters), "cold.bin": manySteps} {
		w := serveTo(h, get("/"+name, ""))
		if !bytes.Equal(w.Body.Bytes(), bytes.Repeat(letters, size/len(letters))) {
			t.Errorf("%s: %d, %d bytes", name, w.Code, w.Body.Len())
		}
	}
	return h.Stats().ColdBytes
}

// leavesCacheAlone sees that serving leaves nothing of cold.bin in the page cache, and all of hot.bin. The kernel takes
// pages for other uses when it likes, so once out of several times is enough for what is to stay. Where samples may lie,
// because a disk on a busy machine answers before the kernel looks whether it has, what they call hot stays as well.
func leavesCacheAlone(t *testing.T, dir string, mayLie bool, serve func()) {
	t.Helper()
	hot, cold := filepath.Join(dir, "hot.bin"), filepath.Join(dir, "cold.bin")
	for try := 1; ; try++ {
		chill(t, cold)
		content, err := os.ReadFile(hot)
		must(t, err)
		serve()
		left, stayed := cachedPages(t, cold), cachedPages(t, hot)
		if left > 256<<10 && !mayLie {
			t.Errorf("%d bytes are left that should be dropped", left)
		}
		if left <= 256<<10 && stayed >= int64(len(content)) {
			return
		}
		if try == 8 && left > 256<<10 {
			t.Skipf("%d bytes look hot and are not: the disk is too fast for samples just now", left)
		}
		if try == 8 {
			t.Fatalf("%d bytes of the hot file are left", stayed)
		}
	}
}
