//go:build !race && !invariants

package mp4_test

import (
	"testing"

	"github.com/millrace-io/millrace/internal/testkit/alloctest"
)

func TestNoAllocationPerTag(t *testing.T) {
	f := newFeed(t)
	defer f.close()
	for range 1000 {
		f.next()
	}
	if n := alloctest.Count(0, func() {
		for range 10_000 {
			f.next()
		}
	}); n != 0 {
		t.Errorf("%v allocations in 10,000 tags", n)
	}
}
