// Package escape is compiled by a test that reads where the compiler puts its variables. No name is
// used twice.
package escape

import (
	"io"

	"github.com/millrace-io/millrace"
)

func build(pool *millrace.Pool, p []byte) (total int) {
	draft := pool.Get(100)
	ref := draft.Freeze(copy(draft.Bytes(), p))
	clone := ref.Clone()
	part := ref.Slice(1, 2)
	total = len(ref.Bytes()) + part.Len()
	var chain millrace.Chain
	chain.Append(&ref)
	chain.Append(&clone)
	chain.Append(&part)
	chain.AppendCopy(p)
	for piece := range chain.All() {
		total += len(piece)
	}
	chain.Release()
	return total
}

func share(chains chan<- millrace.Chain, source *millrace.Chain) {
	var copied, front, merged millrace.Chain
	source.CloneTo(&copied)
	copied.CutTo(&front, 10)
	source.SliceTo(&merged, 1, 2)
	merged.Merge(&front)
	merged.Discard(1)
	chains <- merged // moved
	copied.Release()
}

func relay(r *millrace.Reader, w io.Writer, p []byte) error {
	var packet, body millrace.Chain
	if err := r.ReadChain(&packet, 10); err != nil {
		return err
	}
	if _, err := body.ReadFrom(r); err != nil {
		return err
	}
	packet.Merge(&body)
	packet.CopyTo(p)
	p[0] = packet.Bytes()[0]
	view := packet.Reader()
	if _, err := view.Read(p); err != nil {
		return err
	}
	_, err := packet.WriteTo(w)
	packet.Release()
	return err
}

// What is lent is counted without a closure on the heap.
func lend(r *millrace.Reader) (lent int, err error) {
	err = r.ReadRange(10, func(p []byte) { lent += len(p) })
	return lent, err
}

// A pointer that outlives the function takes its Chain to the heap, and the compiler says so.
func escapes() *millrace.Chain {
	var outlives millrace.Chain
	return &outlives
}
