//go:build invariants

package chunk_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/chunk"
)

// A slice that is kept after its loan has been overwritten.
func TestLentChunksAreDestroyed(t *testing.T) {
	r := chunk.NewReader(strings.NewReader("one\ntwo\n"), chunk.Size(4), chunk.At(chunk.Lines()))
	defer r.Close()
	var kept [][]byte
	for p, err := range r.Chunks(t.Context()) {
		must(t, err)
		kept = append(kept, p)
	}
	if len(kept) != 2 {
		t.Errorf("%d chunks, want 2", len(kept))
	}
	for _, k := range kept {
		if want := bytes.Repeat([]byte{0xDB}, len(k)); !bytes.Equal(k, want) {
			t.Errorf("a chunk that was lent is still %q", k)
		}
	}
}
