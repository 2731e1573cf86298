package redisbuf

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-io/millrace/internal/redistest"
)

// threadCalls returns how many system calls that read and that write this thread has made.
func threadCalls(t *testing.T) (reads, writes int) {
	t.Helper()
	text, err := os.ReadFile("/proc/thread-self/io")
	if err != nil {
		t.Skip(err)
	}
	var n int
	if _, err := fmt.Sscanf(string(text), "rchar: %d\nwchar: %d\nsyscr: %d\nsyscw: %d", &n, &n, &reads, &writes); err != nil {
		t.Fatal(err)
	}
	return reads, writes
}

// usualCalls returns how many system calls f makes: in the middle of many times, because the kernel is free to hand over a
// value in more pieces when it is busy.
func usualCalls(t *testing.T, f func() error) (reads, writes int) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	own, _ := threadCalls(t)
	again, _ := threadCalls(t)
	own = again - own // what looking costs
	var allReads, allWrites []int
	for range 101 {
		r, w := threadCalls(t)
		must(t, f())
		r2, w2 := threadCalls(t)
		allReads, allWrites = append(allReads, r2-r-own), append(allWrites, w2-w)
	}
	slices.Sort(allReads)
	slices.Sort(allWrites)
	return allReads[50], allWrites[50]
}

// A value goes out together with its command, and comes in together with its header: no more than three system calls for a
// GET of 64 KiB, and two for a SET.
func TestSystemCalls(t *testing.T) {
	unix := redistest.Start(t, redistest.UnixSocket())
	for name, o := range map[string]*redis.Options{"tcp": redistest.Shared(t).Options(), "unix": unix.Options()} {
		c, _ := clientOf(t, o)
		ctx := context.Background()
		value, buf := randomValue(64<<10), make([]byte, 64<<10)
		reads, writes := usualCalls(t, func() error { return c.SetFromBuffer(ctx, "calls", value) })
		if reads > 1 || writes > 1 {
			t.Errorf("SET over %s: %d reads and %d writes, want one of each", name, reads, writes)
		}
		reads, writes = usualCalls(t, func() error { _, err := c.GetToBuffer(ctx, "calls", buf); return err })
		if reads > 2 || writes > 1 {
			t.Errorf("GET over %s: %d reads and %d writes, want 2 and 1", name, reads, writes)
		}
		t.Logf("GET over %s: %d reads and %d writes", name, reads, writes)
	}
}
