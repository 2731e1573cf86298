package chunk_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-io/millrace/chunk"
	"golang.org/x/sys/unix"
)

func TestCopyEndsWhileTheSourceHangs(t *testing.T) {
	for name, open := range waitingEnds {
		for _, dst := range copyTargets {
			t.Run(name+" to "+dst.name, func(t *testing.T) {
				w, r := open(t)
				var writing sync.WaitGroup
				writing.Go(func() { _, _ = io.WriteString(w, "before") })
				awaitUnread(r, len("before"))
				target, got := dst.open(t)
				ctx, cancel := context.WithCancelCause(context.Background())
				var canceling sync.WaitGroup
				canceling.Go(func() {
					writing.Wait()
					awaitUnread(r, 0)
					cancel(errors.New("not this one"))
				})
				report, err := chunk.Copy(ctx, target, r)
				canceling.Wait()
				if err != context.Canceled {
					t.Errorf("Copy = %+v, %v, want context.Canceled", report, err)
				}
				// The context may end after the read and before the write.
				if b := got(); int64(len(b)) != report.Bytes ||
					!strings.HasPrefix("before", string(b)) {
					t.Errorf("%q arrived of %+v", b, report)
				}
				writing.Go(func() { _, _ = io.WriteString(w, "after it") })
				p := make([]byte, 8)
				if _, err := io.ReadFull(r, p); err != nil || string(p) != "after it" {
					t.Errorf("the source's next bytes are %q, %v, want those after the end", p, err)
				}
				writing.Wait()
			})
		}
	}
}

// awaitUnread waits until n unread bytes are in the kernel's buffer of r, or of the reader that r
// limits. A net.Pipe has no buffer: a Write to it returns when the bytes were read.
func awaitUnread(r io.Reader, n int) {
	if l, ok := r.(*io.LimitedReader); ok {
		r = l.R
	}
	c, ok := r.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := c.SyscallConn()
	for have := -1; err == nil && have != n; time.Sleep(time.Millisecond) {
		err = raw.Control(func(fd uintptr) { have, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
	}
}
