package broadcast

import "github.com/millrace-io/millrace"

// A preamble is the data that a reader needs before it can start at a keyframe. Three kinds of
// holders have one ref each: the ring, while the preamble is current; the record of each keyframe
// that was published under it; and each cursor that starts at the head and has not taken anything
// yet. Ring.mu guards all of it.
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
