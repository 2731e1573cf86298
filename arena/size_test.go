package arena_test

import (
	"strconv"
	"testing"

	"github.com/millrace-io/millrace/arena"
)

// What comments and documentation say about sizes.
func TestSizes(t *testing.T) {
	if strconv.IntSize < 64 {
		t.Skip("they are those of 64-bit machines")
	}
	if arena.SliceSize != 16 {
		t.Errorf("a Slice has %d bytes, not 16", arena.SliceSize)
	}
	if arena.SlotSize != 64 {
		t.Errorf("a slot has %d bytes, and does not fill a cache line", arena.SlotSize)
	}
}
