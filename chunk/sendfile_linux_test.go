package chunk_test

import (
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/millrace-io/millrace/chunk"
)

// After a long wait for the socket, a step sends nothing that has to be in the page cache for sure, because it may have
// left it meanwhile: that is asked for again.
func TestStepAfterALongWait(t *testing.T) {
	const size = 1000
	file := fileOf(t, someBytes(size))
	for _, c := range []struct {
		quick bool
		ago   time.Duration
		waits int
		want  int64
	}{
		{true, time.Minute, 1, 0},
		{true, time.Minute, 0, size}, // no wait of its own: whoever called has asked just now
		{true, -time.Minute, 1, size},
		{false, time.Minute, 1, size}, // nobody has said that it is there
	} {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		must(t, err)
		socket, peer := os.NewFile(uintptr(pair[0]), ""), os.NewFile(uintptr(pair[1]), "")
		sent, done := chunk.StepAfter(socket, file, size, c.quick, c.ago, c.waits)
		if sent != c.want || !done {
			t.Errorf("%+v: %d bytes were sent, done: %v", c, sent, done)
		}
		must(t, socket.Close())
		must(t, peer.Close())
	}
}
