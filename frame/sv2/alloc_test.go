//go:build !race && !invariants

package sv2_test

import (
	"testing"

	"github.com/millrace-io/millrace/internal/testkit/alloctest"
)

func TestNoAllocationPerFrame(t *testing.T) {
	for _, size := range []int{0, 100, 10_000, 150_000} {
		for name, f := range inPlace(t, size) {
			for range 50 {
				f()
			}
			if n := alloctest.Count(0, func() {
				for range 100 {
					f()
				}
			}); n != 0 {
				t.Errorf("%s of %d bytes: %v allocations in 100 frames", name, size, n)
			}
		}
	}
}
