//go:build !race && !invariants

package chunk_test

import (
	"io"
	"net/http"
	"testing"

	"github.com/millrace-io/millrace/chunk"
)

// A discarder is a response that keeps nothing.
type discarder struct{ header http.Header }

func (d *discarder) Header() http.Header         { return d.header }
func (d *discarder) WriteHeader(int)             {}
func (d *discarder) Write(p []byte) (int, error) { return len(p), nil }

// TestFileServerAllocations: a hot file costs fewer allocations than with http.FileServer.
func TestFileServerAllocations(t *testing.T) {
	root, _ := makeTree(t, tree)
	for _, path := range []string{"/plain.txt", "/large.bin"} {
		count := func(h http.Handler) float64 {
			r := get(path, "")
			d := &discarder{make(http.Header)}
			return testing.AllocsPerRun(100, func() {
				clear(d.header)
				h.ServeHTTP(d, r)
			})
		}
		ours, theirs := count(newFiles(t, root)), count(reference(root, ""))
		t.Logf("%s: %v allocations, http.FileServer %v", path, ours, theirs)
		if ours > 6 || ours >= theirs {
			t.Errorf("%s: %v allocations, http.FileServer %v", path, ours, theirs)
		}
	}
}

// TestConnAllocations: neither way to keep a header back allocates.
func TestConnAllocations(t *testing.T) {
	own, peer := accepted(t)
	go func() { _, _ = io.Copy(io.Discard, peer) }()
	part := make([]byte, 200)
	for name, call := range map[string]func(){
		"Write": func() { _, _ = own.Write(part) },
		"held":  func() { _, _ = own.WriteHeld(part) },
		"cork":  func() { chunk.CorkAndUncork(own.TCPConn) },
	} {
		if n := testing.AllocsPerRun(1000, call); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
