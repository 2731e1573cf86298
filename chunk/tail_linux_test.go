package chunk_test

import (
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-io/millrace/chunk"
	"golang.org/x/sys/unix"
)

// OpenTail returns even if the name is given to a pipe between its check and its opening.
func TestOpenTailDoesNotWaitForAPipe(t *testing.T) {
	d := logDir{t, t.TempDir()}
	d.write("log", "one\n")
	log, pipe := d.path("log"), filepath.Join(d.dir, "pipe")
	must(t, unix.Mkfifo(pipe, 0o644))
	if err := unix.Renameat2(unix.AT_FDCWD, log, unix.AT_FDCWD, pipe,
		unix.RENAME_EXCHANGE); err != nil {
		t.Skip("the file system cannot exchange two names: ", err)
	}
	var stop atomic.Bool
	var swaps sync.WaitGroup
	swaps.Go(func() {
		for !stop.Load() {
			_ = unix.Renameat2(unix.AT_FDCWD, log, unix.AT_FDCWD, pipe, unix.RENAME_EXCHANGE)
		}
	})
	opened := make(chan struct{})
	go func() {
		defer close(opened)
		for range 5000 {
			if tail, err := chunk.OpenTail(log, chunk.Position{}); err == nil {
				_ = tail.Close()
			}
		}
	}()
	select {
	case <-opened:
	case <-time.After(time.Minute):
		t.Error("OpenTail waits for the writer of a pipe")
	}
	stop.Store(true)
	swaps.Wait()
}
