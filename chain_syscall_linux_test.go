package millrace_test

import (
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"testing"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/testkit/need"
)

// writeCalls returns the number of writing system calls that the function makes which make returns.
// It is the minimum of several attempts, because the runtime sometimes writes, too, in order to
// wake the poller.
func writeCalls(t testing.TB, make func() (send func())) int {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	least := math.MaxInt
	for range 5 {
		send := make()
		before := threadWrites(t)
		send()
		least = min(least, threadWrites(t)-before)
	}
	return least
}

func threadWrites(t testing.TB) int {
	t.Helper()
	text, err := os.ReadFile("/proc/thread-self/io")
	if err != nil {
		need.Missing(t, "a kernel with CONFIG_TASK_IO_ACCOUNTING: "+err.Error())
	}
	var writes, other int
	const format = "rchar: %d\nwchar: %d\nsyscr: %d\nsyscw: %d"
	if _, err := fmt.Sscanf(string(text), format, &other, &other, &other, &writes); err != nil {
		t.Fatal(err)
	}
	return writes
}

// One system call writes 1024 pieces, the kernel's limit.
func TestWriteToIsOneSystemCall(t *testing.T) {
	onSockets(t, func(t *testing.T, client, server streamConn) {
		go io.Copy(io.Discard, server)
		for _, test := range []struct{ pieces, calls int }{
			{1, 1}, {2, 1}, {4, 1}, {5, 1}, {64, 1}, {1023, 1}, {1024, 1}, {1025, 2}, {2048, 2},
			{3000, 3},
		} {
			calls := writeCalls(t, func() func() {
				var c millrace.Chain
				addBlocks(millrace.DefaultPool(), &c, letters(test.pieces), 1)
				return func() {
					if n, err := c.WriteTo(client); n != int64(test.pieces) || err != nil {
						t.Errorf("WriteTo = %d, %v, want all pieces", n, err)
					}
				}
			})
			if calls != test.calls {
				t.Errorf("%d pieces in %d system calls, want %d", test.pieces, calls, test.calls)
			}
		}
	})
}

// A Flush sends the bytes written before a Chain, the Chain, and the bytes written after it with
// one system call. WriteChain itself flushes if more than Size bytes are unsent.
func TestFlushIsOneSystemCall(t *testing.T) {
	onSockets(t, func(t *testing.T, client, server streamConn) {
		go io.Copy(io.Discard, server)
		w := millrace.NewWriterSize(client, 10_000)
		for _, body := range []int{0, 1, 5000, 20_000} {
			calls := writeCalls(t, func() func() {
				var c millrace.Chain
				addBlocks(millrace.DefaultPool(), &c, letters(body), 1000)
				return func() {
					w.WriteString("header")
					w.WriteChain(&c)
					if body <= w.Size() {
						w.WriteString("trailer")
					}
					if err := w.Flush(); err != nil {
						t.Error(err)
					}
				}
			})
			if calls != 1 {
				t.Errorf("a body of %d bytes in %d system calls, want 1", body, calls)
			}
		}
	})
}
