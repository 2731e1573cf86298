package millrace

import (
	"fmt"
	"io"
	"slices"
	"time"
)

// The private parts that tests in package millrace_test look at or set up.

const Invariants = invariants

// Sole returns a function that reports, on any goroutine, whether the shares that c now holds of
// its last piece's block are all that there are.
func Sole(c *Chain) func() bool {
	pieces := c.pieces()
	last := pieces[len(pieces)-1]
	return func() bool { return last.blk.sole(last.shares) }
}

// BlockState returns the generation and the count of r's block.
func BlockState(r *Reader) uint64 { return r.blk.state.Load() }

// TrimUnneeded is what each garbage collection does, at a time of the test's choice.
func TrimUnneeded(p *Pool, now time.Time) { p.trimUnneeded(now) }

// ForgetTrim makes the next garbage collection trim, whenever the last one did.
func ForgetTrim(p *Pool) {
	p.trimming.Lock()
	defer p.trimming.Unlock()
	p.lastTrim = time.Time{}
}

// KeptBytes counts the memory that p keeps idle.
func KeptBytes(p *Pool) (n int64) {
	for i := range p.classes {
		c := &p.classes[i]
		c.mu.Lock()
		defer c.mu.Unlock() // all at once, so that it is the state of one moment
		n += int64(len(c.free)) * int64(classSize(i))
	}
	return n
}

// AddShares adds n to the count of r's block, as that many holders would.
func AddShares(r *Ref, n int64) int64 {
	r.blk.state.Add(uint64(n))
	return n
}

// Broken says which of Chain's invariants c breaks.
func Broken(c *Chain) error {
	pieces := c.pieces()
	size := 0
	for i := range pieces {
		r := &pieces[i]
		switch {
		case r.blk == nil || r.n == 0:
			return fmt.Errorf("piece %d is empty", i)
		case int(r.off)+int(r.n) > len(r.blk.buf):
			return fmt.Errorf("piece %d is [%d:+%d) of a block of %d bytes", i, r.off, r.n,
				len(r.blk.buf))
		case r.shares == 0 || r.shares > count(r.blk.state.Load()):
			return fmt.Errorf("piece %d has %d of %d shares", i, r.shares,
				count(r.blk.state.Load()))
		case i > 0 && pieces[i-1].blk == r.blk && pieces[i-1].off+pieces[i-1].n == r.off:
			return fmt.Errorf("pieces %d and %d are neighbours", i-1, i)
		}
		size += int(r.n)
	}
	if size != c.size {
		return fmt.Errorf("the pieces have %d bytes, size is %d", size, c.size)
	}
	return stray(c)
}

// stray finds Refs outside of the pieces, which would keep the memory of blocks alive.
func stray(c *Chain) error {
	idle := slices.Concat(c.few[:], c.many[:cap(c.many)])
	if c.many == nil {
		clear(idle[c.head:c.tail])
	} else {
		clear(idle[len(c.few)+c.head : len(c.few)+len(c.many)])
	}
	for i := range idle {
		if idle[i] != (Ref{}) {
			return fmt.Errorf("a Ref is left at %d, outside of the pieces", i)
		}
	}
	return nil
}

// WriteVector is WriteTo for a socket.
func WriteVector(c *Chain, w io.Writer) (int64, error) { return c.writeVector(w) }
