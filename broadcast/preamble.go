package broadcast

import "github.com/millrace-io/millrace"

// A preamble is the data that a reader needs before it can start at a keyframe. Its refs are held
// by the ring (while it is the current preamble), by the records of the keyframes published under
// it, and by the cursors that start at the head and have not taken anything yet: one ref each.
// Ring.mu guards all of it.
type preamble struct {
	chain millrace.Chain
	id    uint64 // counts from 1; 0 means none
	refs  int
}

// hold adds a ref; p may be nil.
func (p *preamble) hold() *preamble {
	if p != nil {
		p.refs++
	}
	return p
}

// drop removes a ref; the last one releases the chain. p may be nil.
func (p *preamble) drop() {
	if p == nil {
		return
	}
	if p.refs--; p.refs == 0 {
		p.chain.Release()
	}
}
