//go:build !race && !invariants

package chunk_test

import (
	"strings"
	"testing"

	"github.com/millrace-io/millrace/chunk"
	"github.com/millrace-io/millrace/internal/testkit/alloctest"
)

func TestTunerAllocatesNothing(t *testing.T) {
	tuner := fixedWorkers(1)
	r := chunk.NewReader(&repeat{of: strings.Repeat("x", 100) + "\n"}, chunk.At(chunk.Lines()), chunk.TunedBy(newTuner()))
	defer r.Close()
	for name, f := range map[string]func(){
		"Acquire": func() { tuner.Acquire(t.Context()); tuner.Release() },
		"Next": func() {
			ref, err := r.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			ref.Release()
		},
	} {
		for range 50 {
			f()
		}
		if n := alloctest.Count(0, func() {
			for range 200 {
				f()
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
