//go:build !race && !invariants

package chunk_test

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/chunk"
	"github.com/millrace-io/millrace/internal/testkit/alloctest"
)

// repeat returns the same bytes repeatedly, as many as requested.
type repeat struct {
	of string
	at int
}

func (r *repeat) Read(p []byte) (n int, err error) {
	for n < len(p) {
		m := copy(p[n:], r.of[r.at:])
		n += m
		r.at = (r.at + m) % len(r.of)
	}
	return n, nil
}

// wantNoAllocations fails the test if f allocates after a warm-up.
func wantNoAllocations(t *testing.T, f func()) {
	t.Helper()
	for range 100 {
		f()
	}
	if n := alloctest.Count(0, func() {
		for range 500 {
			f()
		}
	}); n != 0 {
		t.Errorf("%v allocations in 500 calls", n)
	}
}

func TestNoAllocationPerChunk(t *testing.T) {
	const text = "{\"a\": [1, 2, \"three\"]}\n"
	file := strings.NewReader(strings.Repeat(text, 4<<20/len(text)))
	for _, test := range []struct {
		name   string
		src    io.Reader
		cutter chunk.Cutter
	}{
		{"fixed", &repeat{of: text}, fixed(1)},
		{"lines", &repeat{of: text}, chunk.Lines()},
		{"values", &repeat{of: text}, chunk.JSON()},
		{"function", &repeat{of: text}, chunk.CutFunc(func(p []byte) int {
			return bytes.IndexByte(p, '\n') + 1
		})},
		{"records longer than a chunk", &repeat{of: strings.Repeat("x", 3000) + "\n"},
			chunk.Lines()},
		{"memory", file, chunk.Lines()},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := chunk.NewReader(test.src, chunk.At(test.cutter), chunk.Size(2048))
			defer r.Close()
			wantNoAllocations(t, func() {
				ref, err := r.Next(t.Context())
				must(t, err)
				ref.Release()
			})
		})
	}
}

func TestNoAllocationUnderATuner(t *testing.T) {
	tuner := fixedWorkers(1)
	r := chunk.NewReader(&repeat{of: strings.Repeat("x", 100) + "\n"}, chunk.At(chunk.Lines()),
		chunk.TunedBy(tuner))
	defer r.Close()
	wantNoAllocations(t, func() {
		must(t, tuner.Acquire(t.Context()))
		ref, err := r.Next(t.Context())
		must(t, err)
		ref.Release()
		tuner.Release()
	})
}
