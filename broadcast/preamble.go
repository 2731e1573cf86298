package broadcast

import "github.com/millrace-io/millrace"

// A preamble is the data that a reader needs before a keyframe. Its memory is released when the
// last reference is dropped. References are held by:
//
//   - the ring, while the preamble is current
//   - the record of each keyframe that was published with the preamble
//   - each cursor with the option FromHead, until it takes its first batch, skips to a keyframe or
//     is closed
//
// Ring.mu guards all fields.
type preamble struct {
	chain millrace.Chain
	id    uint64 // counts from 1
	refs  int
}

// hold adds a reference to p, which may be nil, and returns p.
func (p *preamble) hold() *preamble {
	if p != nil {
		p.refs++
	}
	return p
}

// drop removes a reference to p, which may be nil. The last drop releases the chain.
func (p *preamble) drop() {
	if p == nil {
		return
	}
	if p.refs--; p.refs == 0 {
		p.chain.Release()
	}
}
