package chunk_test

import (
	"testing"

	"github.com/millrace-io/millrace/chunk"
)

// The queue of a Reader holds no chunk that it has given, wherever its chunks have moved: whoever has got one would see its
// memory kept from the garbage collector.
func TestQueueKeepsNothing(t *testing.T) {
	for _, steps := range []string{
		"+-", "++-+-", "++++--+--+--", "++++---+", "++++--+++--+", "++++-+-+-+-+-+-+",
	} {
		if kept := chunk.KeptByQueue(steps); kept != 0 {
			t.Errorf("%s: %d chunks that were given are kept", steps, kept)
		}
	}
}
