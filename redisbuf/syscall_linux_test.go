package redisbuf

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/millrace-io/millrace/internal/testkit/need"
	"github.com/millrace-io/millrace/internal/testkit/redistest"
)

// threadIO counts the bytes that this thread has read and written, and the system calls for reading
// and writing. A splice is not counted.
type threadIO struct{ read, written, reads, writes int }

func threadNow(t *testing.T) (io threadIO) {
	t.Helper()
	text, err := os.ReadFile("/proc/thread-self/io")
	if err != nil {
		need.Missing(t, "a kernel with CONFIG_TASK_IO_ACCOUNTING: "+err.Error())
	}
	_, err = fmt.Sscanf(string(text), "rchar: %d\nwchar: %d\nsyscr: %d\nsyscw: %d", &io.read,
		&io.written, &io.reads, &io.writes)
	must(t, err)
	return io
}

// usualCalls returns the number of system calls in f: the median of many runs, because a busy
// kernel may deliver a value in more pieces.
func usualCalls(t *testing.T, f func() error) (reads, writes int) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	own := -threadNow(t).reads
	own += threadNow(t).reads // cost of reading the counters
	var allReads, allWrites []int
	for range 101 {
		before := threadNow(t)
		must(t, f())
		after := threadNow(t)
		allReads, allWrites = append(allReads, after.reads-before.reads-own),
			append(allWrites, after.writes-before.writes)
	}
	slices.Sort(allReads)
	slices.Sort(allWrites)
	return allReads[50], allWrites[50]
}

// A value is sent together with its command, in one system call. A reply takes one read that finds
// nothing, one that returns its beginning, one or two for the rest of the value, and one for the
// end.
func TestSystemCalls(t *testing.T) {
	unix := redistest.Start(t, redistest.UnixSocket())
	for name, s := range map[string]*redistest.Server{"tcp": redistest.Shared(t), "unix": unix} {
		c, _ := clientOf(t, optionsOf(s.Endpoint()))
		ctx := context.Background()
		value, buf := randomValue(64<<10), make([]byte, 64<<10)
		reads, writes := usualCalls(t, func() error { return c.SetFromBuffer(ctx, "calls", value) })
		if reads > 2 || writes > 1 {
			t.Errorf("SET over %s: %d reads and %d writes, want 2 and 1", name, reads, writes)
		}
		reads, writes = usualCalls(t, func() error {
			_, err := c.GetToBuffer(ctx, "calls", buf)
			return err
		})
		if reads > 5 || writes > 1 {
			t.Errorf("GET over %s: %d reads and %d writes, want 5 and 1", name, reads, writes)
		}
		t.Logf("GET over %s: %d reads and %d writes", name, reads, writes)
	}
}

// The kernel moves a large value between two sockets, so that it does not pass through the memory
// of this process.
func TestLargeValuesAreSpliced(t *testing.T) {
	c, rdb := shared(t)
	ctx := bounded(t)
	value := randomValue(3 << 20)
	must(t, rdb.Set(ctx, "splice", value, 0).Err())
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := threadNow(t)
	got, err := throughSocket(func(w io.Writer) (int64, error) { return c.GetTo(ctx, "splice", w) })
	after := threadNow(t)
	if err != nil || !bytes.Equal(got, value) {
		t.Fatal(err)
	}
	if n := after.read - before.read; n > len(value)/2 {
		t.Errorf("GetTo has read %d bytes of %d", n, len(value))
	}
	before = threadNow(t)
	must(t, setFromSocket(ctx, c, "splice", value))
	if n := threadNow(t).written - before.written; n > len(value)/2 {
		t.Errorf("SetFrom has written %d bytes of %d", n, len(value))
	}
	check(t, rdb, "splice", value)
}

// The kernel moves a large value to an HTTP response without a Content-Length, also through a
// middleware's wrapper.
func TestValuesAreSplicedIntoResponses(t *testing.T) {
	c, rdb := shared(t)
	ctx := bounded(t)
	value := randomValue(3 << 20)
	must(t, rdb.Set(ctx, "splice/http", value, 0).Err())
	for _, wrapped := range []bool{false, true} {
		_, got := response(t, "GET", func(w http.ResponseWriter) {
			if wrapped {
				w = &wrapper{ResponseWriter: &wrapper{ResponseWriter: w}}
			}
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			before := threadNow(t)
			n, err := c.GetTo(ctx, "splice/http", w)
			if err != nil || n != int64(len(value)) {
				t.Error(n, err)
			}
			if n := threadNow(t).read - before.read; n > len(value)/2 {
				t.Errorf("wrapped: %t, GetTo has read %d bytes of %d", wrapped, n, len(value))
			}
		})
		if !bytes.Equal(got, value) {
			t.Errorf("wrapped: %t, another value", wrapped)
		}
	}
}

// The kernel sends a file to the socket. Passing it through memory would take a read and a write
// for every 64 KiB.
func TestFilesAreSentByTheKernel(t *testing.T) {
	c, rdb := shared(t)
	value := randomValue(1 << 20)
	name := filepath.Join(t.TempDir(), "value")
	must(t, os.WriteFile(name, value, 0o600))
	f, err := os.Open(name)
	must(t, err)
	defer f.Close()
	reads, writes := usualCalls(t, func() error {
		return c.SetFile(context.Background(), "sendfile", f)
	})
	if reads > 8 || writes > 8 {
		t.Errorf("%d reads and %d writes", reads, writes)
	}
	check(t, rdb, "sendfile", value)
}
