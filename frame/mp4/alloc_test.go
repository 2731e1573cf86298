//go:build !race && !invariants

package mp4_test

import "testing"

func TestNoAllocationPerTag(t *testing.T) {
	f := newFeed(t)
	defer f.close()
	for range 1000 {
		f.next()
	}
	if n := testing.AllocsPerRun(10_000, f.next); n != 0 {
		t.Errorf("%v allocations a tag", n)
	}
}
