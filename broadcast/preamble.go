package broadcast

import "github.com/millrace-io/millrace"

// A preamble is the data that a reader needs before a keyframe. It counts the references to it:
//
//   - The ring holds one while the preamble is current.
//   - The record of each keyframe that was published with this preamble holds one.
//   - Each cursor with FromHead holds one until its first batch or its first move.
//
// Ring.mu guards all fields.
type preamble struct {
	chain millrace.Chain
	id    uint64 // counts from 1
	refs  int
}

// hold adds a reference. p may be nil.
func (p *preamble) hold() *preamble {
	if p != nil {
		p.refs++
	}
	return p
}

// drop removes a reference. The last drop releases the chain. p may be nil.
func (p *preamble) drop() {
	if p == nil {
		return
	}
	if p.refs--; p.refs == 0 {
		p.chain.Release()
	}
}
