//go:build linux && !race && !invariants

package chunk_test

import (
	"context"
	"io"
	"testing"

	"github.com/millrace-io/millrace/chunk"
)

// What one Copy allocates, however much it moves. A context that can end costs nothing as long as nothing is waited for.
func TestAllocationsPerCopy(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	f := fileOf(t, someBytes(32<<10))
	dst, _ := newFile(t, 0)
	w, r := tcpEnds(t)
	drain(t, w, r)
	plain := struct{ io.Writer }{io.Discard}
	for _, test := range []struct {
		name string
		dst  io.Writer
		most float64
	}{
		{"file to file", dst, 1},
		{"file to TCP", w, 3},
		{"file to a writer", plain, 5},
	} {
		n := testing.AllocsPerRun(200, func() {
			_, _ = f.Seek(0, io.SeekStart)
			if _, err := chunk.Copy(ctx, test.dst, f); err != nil {
				t.Error(err)
			}
		})
		if n > test.most {
			t.Errorf("%s: %v allocations, want %v", test.name, n, test.most)
		}
	}
}
