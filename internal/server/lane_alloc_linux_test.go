//go:build !race && !invariants

package server

import (
	"testing"

	"golang.org/x/sys/unix"
)

// In steady state a turn costs no allocation.
func TestATurnAllocatesNothing(t *testing.T) {
	b := sit(t)
	defer b.Close()
	b.readBy(make([]byte, 8<<10))
	b.resume()
	tag := make([]byte, 3000)
	if allocs := testing.AllocsPerRun(200, func() {
		_, _ = unix.Write(b.peer, tag)
		b.resume()
	}); allocs != 0 {
		t.Errorf("%v allocations, want 0", allocs)
	}
	if want := 201 * len(tag); b.got != want {
		t.Errorf("%d bytes, want %d", b.got, want)
	}
	b.st.server.drain()
	if b.resume() {
		t.Error("it has not ended")
	}
}
