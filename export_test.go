package millrace

// The private parts that tests in package millrace_test look at or set up.

const Invariants = invariants

// Sole returns a function that reports, on any goroutine, whether the shares that c now holds of its last piece's block
// are all that there are.
func Sole(c *Chain) func() bool {
	pieces := c.pieces()
	last := pieces[len(pieces)-1]
	return func() bool { return last.blk.sole(last.shares) }
}

// Quicken makes r believe that its source never waits, which otherwise the clock decides.
func Quicken(r *Reader) {
	if r.sock == nil && r.more == nil {
		r.quick, r.probed = true, probes
	}
}

// BlockState returns the generation and the count of r's block.
func BlockState(r *Reader) uint64 { return r.blk.state.Load() }
