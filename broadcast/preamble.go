package broadcast

import "github.com/millrace-io/millrace"

// A preamble is what a reader needs before it can start at a key frame. It is
// shared by the ring (while it is the current one), the records of the key
// frames that were published under it, and cursors that start at the head and
// have not taken anything yet: one ref each. All of it is guarded by Ring.mu.
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
