package broadcast

import "github.com/millrace-io/millrace"

// A preamble is the data that a reader needs before it can start at a keyframe. The ring shares it
// (while it is the current one) with the records of the keyframes published under it, and with
// cursors that start at the head and have not taken anything yet: one ref each. Ring.mu guards all
// of it.
type preamble struct {
	chain millrace.Chain
	id    uint64 // counts from 1, so that 0 is "none"
	refs  int
}

// hold adds a ref; p may be nil.
func (p *preamble) hold() *preamble {
	if p != nil {
		p.refs++
	}
	return p
}

// drop gives back a ref; the last one releases the chain. p may be nil.
func (p *preamble) drop() {
	if p == nil {
		return
	}
	if p.refs--; p.refs == 0 {
		p.chain.Release()
	}
}
